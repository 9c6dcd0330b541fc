"""The log of a task, told so that somebody who never saw this project can follow it.

Pure: entries in, parts and lines out (`parts.py`, `lines.py`). Of core alone, so that commands and the report of a run
tell the same story in the same words.
"""
