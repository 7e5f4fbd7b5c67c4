"""The report: records as one page."""

from zslearn.experiments._report._write import write_report

__all__ = ["write_report"]
