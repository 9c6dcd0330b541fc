"""What a run says of itself: in the terminal, as a story of each anomaly, as a page, as data."""

from noeta.chaos.report.files import story, write_report
from noeta.chaos.report.lines import anomalies, first_line, last_lines, summary

__all__ = ["anomalies", "first_line", "last_lines", "story", "summary", "write_report"]
