"""Textbook algorithms: built where the machine has the links, not searched."""

from taccl.encoding.engines.textbook.engine import (
    by_name,
    fastest,
    fastest_valid,
    of_libraries,
    serves,
    textbook,
    textbook_at_once,
)

__all__ = ["by_name", "fastest", "fastest_valid", "of_libraries", "serves", "textbook", "textbook_at_once"]
