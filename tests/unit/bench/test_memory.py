from executor.bench.memory import Process, parse, sandboxes, sizes

SERVER = 10


def process(pid, parent, name, *inner):
    return Process(pid=pid, parent=parent, name=name, pids=(pid, *inner))


LAUNCHER = process(20, SERVER, "launch")
TEMPLATE = process(30, 20, "bears", 1)


def test_a_status_gives_name_parent_and_the_pid_in_each_namespace():
    status = "Name:\texecutor-launch\nPid:\t2536\nPPid:\t2520\nNSpid:\t2536\t1\n"
    assert parse(status) == Process(pid=2536, parent=2520, name="executor-launch", pids=(2536, 1))


def test_sizes_are_read_in_mib():
    rollup = "55d0-7ffd ---p 00000000 00:00 0 [rollup]\nRss: 4096 kB\nPss:   1536 kB\nPrivate_Dirty: 512 kB\n"
    assert sizes(rollup) == {"Rss": 4.0, "Pss": 1.5, "Private_Dirty": 0.5}


def test_a_copy_of_the_launcher_in_a_pid_namespace_of_its_own_is_a_sandbox():
    assert sandboxes([LAUNCHER, process(21, 20, "launch", 1)], SERVER) == {21: [21]}


def test_a_template_is_no_sandbox():
    assert sandboxes([LAUNCHER, TEMPLATE], SERVER) == {}


def test_what_a_template_has_borne_is_a_sandbox_with_all_of_its_processes():
    inside = [process(31, 30, "bears", 2, 1), process(32, 31, "bears", 4, 2), process(33, 30, "bears", 5, 1)]
    assert sandboxes([LAUNCHER, TEMPLATE, *inside], SERVER) == {31: [31, 32], 33: [33]}


def test_server_and_launcher_and_strangers_are_no_sandboxes():
    others = [process(SERVER, 1, "executor"), process(99, 98, "launch", 1)]
    assert sandboxes([LAUNCHER, *others], SERVER) == {}
