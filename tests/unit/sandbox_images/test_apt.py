from pathlib import Path

from sandbox_images.builder.apt import Package, code_name, failed_downloads, kept_settings, own_sources, parse_uris

SHA = "0" * 64


def test_of_the_host_only_the_way_to_the_mirrors_is_kept():
    dump = """\
APT::Update::Post-Invoke-Success:: "rm -f /var/cache/apt/archives/*.deb";
DPkg::Pre-Install-Pkgs:: "dpkg-preconfigure";
Dir::State "var/lib/apt";
Acquire::http::Proxy "http://proxy:3128";
Acquire::https::CaInfo "/etc/ca.pem";
Acquire::Check-Valid-Until "false";
Acquire::IndexTargets::deb::Packages::MetaKey "x";
Acquire::httpish "x";
"""
    assert kept_settings(dump) == [
        'Acquire::http::Proxy "http://proxy:3128";',
        'Acquire::https::CaInfo "/etc/ca.pem";',
        'Acquire::Check-Valid-Until "false";',
    ]


def test_the_listing_of_apt_gives_name_version_and_hash_sorted():
    listing = (
        f"'http://deb.debian.org/z.deb' zlib1g_1%3a1.2.13_amd64.deb 86684 SHA256:{SHA}\n"
        f"'http://deb.debian.org/b.deb' bash_5.2.15-2+b13_amd64.deb 1490652 SHA256:{SHA}\n"
        "Reading package lists...\n"
    )
    assert parse_uris(listing) == [
        Package(name="bash", version="5.2.15-2+b13", sha256=SHA, file="bash_5.2.15-2+b13_amd64.deb"),
        Package(name="zlib1g", version="1:1.2.13", sha256=SHA, file="zlib1g_1%3a1.2.13_amd64.deb"),
    ]


def test_a_failed_download_is_told_by_package_and_reason():
    complaint = (
        "E: Failed to fetch http://deb.debian.org/pool/g/git/git_1%3a2.39.5_amd64.deb  404  Not Found [IP: 1.2.3.4]\n"
        "E: Unable to fetch some archives, maybe run apt-get update\n"
    )
    assert failed_downloads(complaint) == ["git: 404  Not Found [IP: 1.2.3.4]"]


def test_the_code_name_is_read_with_and_without_quotes():
    assert code_name("ID=debian\nVERSION_CODENAME=bookworm\n") == "bookworm"
    assert code_name('VERSION_CODENAME="noble"\n') == "noble"
    assert code_name("ID=arch\n") == ""


def test_sources_of_our_own_are_signed_and_include_security():
    lines = own_sources("trixie", Path("/keys.gpg")).splitlines()
    assert all(line.startswith("deb [signed-by=/keys.gpg] http://deb.debian.org/") for line in lines)
    assert [line.split()[3] for line in lines] == ["trixie", "trixie-updates", "trixie-security"]
