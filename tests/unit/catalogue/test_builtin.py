"""The command of a built-in tool, rendered and run as it is; the sandbox around it has its own tests."""

import json
import shutil
import sqlite3
import subprocess
import sys

import pytest

from executor.catalogue.catalogue import load
from executor.catalogue.template import render


@pytest.fixture(scope="module")
def catalogue():
    return load([], "host")[0]


@pytest.fixture
def run(catalogue, tmp_path):
    def run(name, **arguments):
        tool = catalogue.find(name)
        rendered = render(tool.command, arguments, tool.parameters)
        for file in rendered.files:
            (tmp_path / file.path).write_bytes(file.content)
        program = sys.executable if rendered.argv[0] == "python3" else shutil.which(rendered.argv[0])
        argv = [program, *rendered.argv[1:]]
        return subprocess.run(argv, cwd=tmp_path, input=rendered.stdin, capture_output=True, timeout=60, check=False)

    return run


@pytest.fixture
def shop(tmp_path):
    with sqlite3.connect(tmp_path / "shop.db") as connection:
        connection.execute("CREATE TABLE orders (city TEXT, price REAL)")
        connection.execute("INSERT INTO orders VALUES ('Bern', 1.5), ('Genève', 2)")
    connection.close()
    return "shop.db"


def test_python_runs_the_code_as_a_file(run):
    done = run("python", code="import sys\nprint(sys.argv, '{{code}}')\nraise SystemExit(3)")
    assert (done.returncode, done.stdout) == (3, b"['main.py'] {{code}}\n")


def test_an_error_of_python_names_the_file_and_the_line(run):
    assert b'main.py", line 2' in run("python", code="\n1/0").stderr


def test_shell_errors_name_the_script_and_the_line(run):
    done = run("shell", command="echo out\nno-such-command")
    assert (done.returncode, done.stdout) == (127, b"out\n")
    assert done.stderr == b".command.sh: line 2: no-such-command: command not found\n"


def test_shell_gets_an_empty_standard_input(run):
    assert run("shell", command="cat; echo end").stdout == b"end\n"


def test_node_runs_a_commonjs_module(catalogue):
    tool = catalogue.find("node")
    rendered = render(tool.command, {"code": "require('fs')"}, tool.parameters)
    assert rendered.argv == ("node", "main.cjs")
    assert rendered.files[0].content == b"require('fs')"


def test_read_output_is_answered_by_the_service(catalogue):
    tool = catalogue.find("read_output")
    assert (tool.command, tool.internal) == (None, "read_output")


def test_sqlite_gives_the_rows_of_the_last_query(run):
    done = run(
        "sqlite", sql="CREATE TABLE t (n); INSERT INTO t VALUES (1), (2.5), (NULL), ('é;'); -- end;\nSELECT n FROM t"
    )
    assert json.loads(done.stdout) == {
        "columns": ["n"],
        "rows": [[1], [2.5], [None], ["é;"]],
        "row_count": 4,
        "truncated": False,
    }


def test_sqlite_reads_an_input_file(run, shop):
    done = run("sqlite", sql="SELECT city FROM orders WHERE price > 1.9", database=shop)
    assert json.loads(done.stdout)["rows"] == [["Genève"]]


@pytest.mark.parametrize("sql", ["DELETE FROM orders", "CREATE TABLE x (n)", "SELECT 1; UPDATE orders SET price = 0"])
def test_sqlite_cannot_write_to_an_input_file(run, shop, catalogue, tmp_path, sql):
    before = (tmp_path / shop).read_bytes()
    done = run("sqlite", sql=sql, database=shop)
    assert done.returncode == 77
    assert b"readonly" in done.stderr
    assert done.returncode in catalogue.find("sqlite").exit_codes
    assert (tmp_path / shop).read_bytes() == before


@pytest.mark.parametrize(
    ("sql", "word"),
    [
        ("SELEC 1", b"syntax error"),
        ("SELECT * FROM nowhere", b"no such table: nowhere"),
        ("SELECT 1; SELECT (", b"statement 2"),
        ("SELECT ?", b"binding"),
        ("SELECT 'unterminated", b"unrecognized token"),
        ("SELECT load_extension('x')", b"not authorized"),
    ],
)
def test_sqlite_tells_what_is_wrong_with_the_sql(run, sql, word):
    done = run("sqlite", sql=sql)
    assert (done.returncode, done.stdout) == (65, b"")
    assert word in done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("database", ["none.db", ".sqlite.sql", "a?mode=rwc", "-x"])
def test_sqlite_refuses_what_is_no_database(run, database):
    done = run("sqlite", sql="SELECT 1", database=database)
    assert done.returncode == 66
    assert b"Traceback" not in done.stderr


def test_sqlite_bounds_the_rows_and_says_so(run):
    sql = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000) SELECT i FROM n"
    answer = json.loads(run("sqlite", sql=sql).stdout)
    assert (answer["row_count"], answer["truncated"], len(answer["rows"])) == (1000, True, 1000)


def test_sqlite_gives_json_for_every_kind_of_value(run):
    answer = json.loads(run("sqlite", sql="SELECT x'00ff' AS b, 9e999 AS inf, CAST(x'ff41' AS TEXT) AS t").stdout)
    assert answer["rows"] == [[{"base64": "AP8="}, "inf", "\ufffdA"]]


def test_sqlite_takes_a_trigger_as_one_statement(run):
    sql = """
        CREATE TABLE t (n); CREATE TABLE log (n);
        CREATE TRIGGER g AFTER INSERT ON t BEGIN INSERT INTO log VALUES (new.n); INSERT INTO log VALUES (0); END;
        INSERT INTO t VALUES (7); SELECT group_concat(n) AS n FROM log;
    """
    assert json.loads(run("sqlite", sql=sql).stdout)["rows"] == [["7,0"]]


def test_sqlite_with_nothing_to_show_gives_no_rows(run):
    assert json.loads(run("sqlite", sql="CREATE TABLE t (n); -- nothing").stdout)["rows"] == []


ESCAPES = [
    "ATTACH 'other.db' AS y; DELETE FROM y.orders",
    "attach database 'file:other.db?mode=rwc' AS y; DELETE FROM y.orders",
    "ATTACH 'oth' || 'er.db' AS y; DELETE FROM y.orders",
    "ATTACH 'made.db' AS y; CREATE TABLE y.t (n)",
    "ATTACH ':memory:' AS y",
    "ATTACH '' AS y",
    "DETACH main",
    "VACUUM INTO 'made.db'",
    "VACUUM main INTO 'file:made.db'",
    "/* a */ -- b\n ATTACH 'other.db' AS y",
    "PRAGMA Query_Only = 0",
    "PRAGMA main.query_only(0)",
    "PRAGMA writable_schema = 1",
    "PRAGMA writable_schema = RESET",
    "PRAGMA temp_store_directory = '.'",
    "PRAGMA data_store_directory = '.'",
    "SELECT load_extension('other.db')",
    "SELECT LOAD_EXTENSION('other.db', 'main')",
]


@pytest.mark.parametrize("sql", ESCAPES)
@pytest.mark.parametrize("given", [True, False])
def test_sqlite_keeps_to_its_one_database(run, shop, tmp_path, sql, given):
    shutil.copy(tmp_path / shop, tmp_path / "other.db")
    before = (tmp_path / shop).read_bytes()
    done = run("sqlite", sql=sql, **({"database": shop} if given else {}))
    assert (done.returncode, done.stdout) == (65, b"")
    assert done.stderr.startswith(b"statement 1: ")
    assert b"Traceback" not in done.stderr
    assert {f.name for f in tmp_path.iterdir()} == {shop, "other.db", ".sqlite.py", ".sqlite.sql"}
    assert {(tmp_path / name).read_bytes() for name in (shop, "other.db")} == {before}


def test_sqlite_says_what_it_does_not_allow(run):
    assert b"ATTACH, DETACH and VACUUM may not be used" in run("sqlite", sql="ATTACH 'a.db' AS a").stderr
    assert b"PRAGMA writable_schema = ... may not be used" in run("sqlite", sql="PRAGMA writable_schema=1").stderr


@pytest.mark.parametrize(
    "sql",
    [
        "PRAGMA user_version = 7",
        "PRAGMA journal_mode = WAL; CREATE TABLE x (n)",
        "BEGIN EXCLUSIVE; DELETE FROM orders",
        "COMMIT; DELETE FROM orders",
        "ANALYZE",
        "DROP TABLE orders",
        "ALTER TABLE orders RENAME TO x",
        "VACUUM",
        "DELETE FROM sqlite_schema",
    ],
)
def test_sqlite_leaves_every_byte_of_an_input_file_as_it_was(run, shop, tmp_path, sql):
    before = (tmp_path / shop).read_bytes()
    done = run("sqlite", sql=sql, database=shop)
    assert done.returncode in {65, 77}
    assert b"Traceback" not in done.stderr
    assert (tmp_path / shop).read_bytes() == before


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("PRAGMA table_info(orders)", [[0, "city", "TEXT", 0, None, 0], [1, "price", "REAL", 0, None, 0]]),
        ("SELECT name FROM pragma_table_info('orders')", [["city"], ["price"]]),
        ("PRAGMA query_only", [[0]]),
        ("CREATE TEMP TABLE x AS SELECT * FROM orders; SELECT count(*) FROM x", [[2]]),
        ("PRAGMA integrity_check(1)", [["ok"]]),
    ],
)
def test_sqlite_still_answers_what_only_reads(run, shop, sql, rows):
    assert json.loads(run("sqlite", sql=sql, database=shop).stdout)["rows"] == rows


def test_sqlite_in_memory_may_change_its_own_settings(run):
    sql = "PRAGMA foreign_keys = ON; CREATE TABLE t (n); DROP TABLE t; PRAGMA foreign_keys"
    assert json.loads(run("sqlite", sql=sql).stdout)["rows"] == [[1]]
