"""Test a job in milliseconds: scripted input with marks for time, failures and the end, and collected output."""

from millstream.testing.harness import JobOutput, run_job
from millstream.testing.marks import ABORT, ADVANCE_CLOCK, EOF, WATERMARK

__all__ = ["ABORT", "ADVANCE_CLOCK", "EOF", "WATERMARK", "JobOutput", "run_job"]
