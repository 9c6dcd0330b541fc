"""`noeta tasks`: what a person asks of the tasks in a store, and tells them."""

from noeta.commands.tasks.entry import app

__all__ = ["app"]
