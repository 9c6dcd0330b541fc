"""Where the tasks of a storm are: Postgres, a SQLite file, or a user's own store."""

from noeta.chaos.sites.choose import choose_site, is_postgres, names_a_place
from noeta.chaos.sites.local import factory_site, sqlite_site
from noeta.chaos.sites.postgres import PostgresSite
from noeta.chaos.sites.site import Ground, Opening, Site

__all__ = [
    "Ground",
    "Opening",
    "PostgresSite",
    "Site",
    "choose_site",
    "factory_site",
    "is_postgres",
    "names_a_place",
    "sqlite_site",
]
