"""Programs to MSCCL-XML files and back."""

from taccl.backend.msccl_xml.reader import Document, parse_document, parse_xml, read_document, read_xml
from taccl.backend.msccl_xml.writer import to_xml

__all__ = ["Document", "parse_document", "parse_xml", "read_document", "read_xml", "to_xml"]
