import json

from executor.bench import roots
from executor.bench.lines import Absence
from executor.bench.names import EVERYBODY
from executor.bench.rows import ROWS, Row


def built(images_dir, *programs):
    rootfs = images_dir / "data" / "rootfs"
    (rootfs / "usr/bin").mkdir(parents=True)
    (rootfs / "bin").symlink_to("usr/bin")
    for program in programs:
        (rootfs / "usr/bin" / program).symlink_to(f"/nowhere/{program}")
    described = {"name": "data", "environment": {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}}
    (images_dir / "data" / "image.json").write_text(json.dumps(described))
    return roots.find(images_dir)


def test_a_built_image_is_found_beside_the_host_with_its_own_environment(tmp_path):
    found = built(tmp_path)
    assert sorted(found) == ["data", "host"]
    assert found["data"].environment["PATH"] == "/usr/bin:/bin"
    assert found["data"].environment["HOME"] == "/"


def test_a_program_is_looked_for_inside_of_its_root_also_where_it_is_an_absolute_link(tmp_path):
    data = built(tmp_path, "python3")["data"]
    assert (data.program("python3"), data.program("node")) == ("/usr/bin/python3", None)


def test_links_and_directories_at_the_top_are_told_apart(tmp_path):
    data = built(tmp_path)["data"]
    assert (data.links, list(data.directories)) == ({"bin": "usr/bin"}, ["usr"])


def test_a_row_of_an_image_that_is_not_built_is_absent_by_name(tmp_path):
    found = roots.absences(ROWS, roots.find(tmp_path))
    absent = {one.row: one for one in found}
    assert absent["pandas group-by"].peer == EVERYBODY
    assert "`make images`" in absent["pandas group-by"].reason


def test_a_row_whose_program_is_missing_is_absent_and_says_where_it_was_looked_for(tmp_path):
    row = Row(name="odd", tool="shell", argv=("python3",), image="data")
    reason = "there is no python3 in /usr/bin:/bin; install it"
    assert roots.absences([row], built(tmp_path)) == [Absence(peer=EVERYBODY, row="odd", reason=reason)]


def test_a_row_that_can_be_run_is_not_absent(tmp_path):
    row = Row(name="odd", tool="shell", argv=("python3",), image="data")
    assert roots.absences([row], built(tmp_path, "python3")) == []
