"""Report: records of runs as one HTML page."""
