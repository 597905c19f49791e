"""Textbook algorithms: built where the machine has the links, not searched."""

from taccl.encoding.engines.textbook.engine import fastest, serves, textbook

__all__ = ["fastest", "serves", "textbook"]
