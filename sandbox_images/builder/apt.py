"""Resolves and downloads Debian packages with apt-get in a root of its own.

The host gives its sources, keyrings, preferences and proxy settings, and is not touched: state, lists, cache and the
(empty) dpkg status are ours, and the host's hooks do not run. Works as root and as an ordinary user.
"""

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from .errors import BuildError

_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_SETTING = re.compile(r"Acquire::(?:https?|ftp|Retries|ForceIPv[46]|Check-Valid-Until|Check-Date|Queue-Mode)\b.*")
_URI = re.compile(r"'(?P<uri>[^']+)' (?P<file>\S+) (?P<size>\d+) SHA256:(?P<sha256>[0-9a-f]{64})")
_FAILED = re.compile(r"^E: Failed to fetch (?P<uri>\S+)\s+(?P<reason>.*)$", re.MULTILINE)

_NAMED = 3
"""Failed downloads that a message tells one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    name: str
    version: str
    sha256: str
    file: str
    """Name of the archive in the cache."""


def architecture() -> str:
    for tool in ("apt-get", "dpkg-deb", "dpkg"):
        if not shutil.which(tool):
            raise BuildError(
                f"{tool} is not installed: images are made of Debian packages; build on a machine that has it (Debian, "
                "Ubuntu) and copy the images directory"
            )
    return _run(["dpkg", "--print-architecture"], os.environ).stdout.strip()


def kept_settings(dump: str) -> list[str]:
    """Of the host's settings (`apt-config dump`): how to reach the mirrors. Never a hook, never a path."""
    return [line for line in dump.splitlines() if _SETTING.fullmatch(line)]


def parse_uris(listing: str) -> list[Package]:
    """Of `apt-get install --print-uris`, sorted by name."""
    packages = []
    for match in _URI.finditer(listing):
        name, version, _ = match["file"].removesuffix(".deb").split("_")
        packages.append(Package(name=name, version=unquote(version), sha256=match["sha256"], file=match["file"]))
    return sorted(packages, key=lambda package: package.name)


def failed_downloads(complaint: str) -> list[str]:
    """Each as `package: reason`."""
    failures = _FAILED.finditer(complaint)
    return [
        f"{unquote(match['uri']).rpartition('/')[2].split('_')[0]}: {match['reason'].strip()}" for match in failures
    ]


def own_sources(suite: str, keyring: Path) -> str:
    """Where the host is of another release than the recipe."""
    signed = f"[signed-by={keyring}]"
    return "".join(
        f"deb {signed} {line} main\n"
        for line in (
            f"http://deb.debian.org/debian {suite}",
            f"http://deb.debian.org/debian {suite}-updates",
            f"http://deb.debian.org/debian-security {suite}-security",
        )
    )


def code_name(os_release: str) -> str:
    match = re.search(r"^VERSION_CODENAME=\"?([a-z]+)\"?$", os_release, re.MULTILINE)
    return match[1] if match else ""


class PrivateApt:
    """One root for each suite, kept between builds as a cache."""

    def __init__(self, cache: Path, suite: str) -> None:
        self._suite = suite
        self._root = cache / "apt" / suite
        self._archives = self._root / "archives"
        self._config = self._root / "apt.conf"

    def prepare(self) -> None:
        """The lists are renewed; where the network is away, those of the last build serve."""
        for name in ("state/lists/partial", "archives/partial", "none/partial", "parts"):
            (self._root / name).mkdir(parents=True, exist_ok=True)
        (self._root / "status").touch()
        self._config.write_text("\n".join(self._settings()) + "\n", encoding="utf-8")
        done = self._apt_get("update", "-qq")
        if done.returncode or done.stderr.strip():
            print(f" (note: apt-get update says: {'; '.join(done.stderr.splitlines())})", end="")

    def resolve(self, packages: Sequence[str]) -> list[Package]:
        # With the real archive directory apt would leave out what it has already downloaded.
        none = ["-o", f"Dir::Cache::archives={self._root / 'none'}", "-o", "Acquire::ForceHash=SHA256"]
        done = self._apt_get("install", "--print-uris", "-qq", "-y", *none, *packages)
        if done.returncode:
            raise BuildError(f"apt-get cannot resolve the packages for {self._suite}: {done.stderr.strip()}")
        return parse_uris(done.stdout)

    def download(self, packages: Sequence[str], resolved: Sequence[Package]) -> list[Path]:
        """The archives, each of them checked, in the order of `resolved`."""
        done = self._apt_get("install", "--download-only", "-qq", "-y", *packages)
        if done.returncode:
            failed = failed_downloads(done.stderr)
            more = f"; and {len(failed) - _NAMED} more" if len(failed) > _NAMED else ""
            what = "; ".join(failed[:_NAMED]) + more if failed else done.stderr.strip()
            raise BuildError(f"download failed: {what}. Is the mirror reachable? Build again to go on from here")
        return [self._checked(package) for package in resolved]

    def _checked(self, package: Package) -> Path:
        archive = self._archives / package.file
        if not archive.is_file():
            raise BuildError(f"{package.name}: apt-get downloaded no {archive}")
        with archive.open("rb") as content:
            found = hashlib.file_digest(content, "sha256").hexdigest()
        if found != package.sha256:
            archive.unlink()
            raise BuildError(f"{package.name}: {package.file} had the wrong SHA-256 and was deleted; build again")
        return archive

    def _settings(self) -> list[str]:
        dump = _run(["apt-config", "dump"], os.environ).stdout
        directories = {
            "Dir::State": "state",
            "Dir::State::status": "status",
            "Dir::Cache": ".",
            "Dir::Cache::archives": "archives",
            "Dir::Etc::parts": "parts",
            "Dir::Etc::main": "none/main",
        } | self._sources()
        return [
            *kept_settings(dump),
            *(f'{key} "{self._root / name}";' for key, name in directories.items()),
            'Dir::Cache::pkgcache "";',
            'Dir::Cache::srcpkgcache "";',
            'APT::Install-Recommends "false";',
            'Acquire::Languages "none";',
            'Acquire::GzipIndexes "true";',
            *([] if _is_reachable(self._root) else ['APT::Sandbox::User "root";']),
        ]

    def _sources(self) -> dict[str, str]:
        os_release = Path("/etc/os-release")
        if os_release.is_file() and code_name(os_release.read_text(encoding="utf-8")) == self._suite:
            return {}
        if not _KEYRING.is_file():
            raise BuildError(
                f"this host is not {self._suite}, and {_KEYRING} is missing: install debian-archive-keyring"
            )
        sources = self._root / "sources.list"
        sources.write_text(own_sources(self._suite, _KEYRING), encoding="utf-8")
        return {"Dir::Etc::sourcelist": "sources.list", "Dir::Etc::sourceparts": "parts"}

    def _apt_get(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return _run(["apt-get", *arguments], {**os.environ, "APT_CONFIG": str(self._config), "LC_ALL": "C"})


def _is_reachable(path: Path) -> bool:
    """For apt's own unprivileged user, who downloads when root builds."""
    return all(step.stat().st_mode & 0o001 for step in (path, *path.parents))


def _run(command: list[str], environment: "os._Environ[str] | dict[str, str]") -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
