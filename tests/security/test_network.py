"""What a sandboxed program reaches over the network: itself, and nobody else."""

from tests.security.caller import Caller

OFFLINE = """
import hostile, socket, time

def seconds(action):
    began = time.monotonic()
    try:
        action()
    except OSError as error:
        return [type(error).__name__, time.monotonic() - began]
    return ["reached", time.monotonic() - began]

def tcp(host, port):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as one:
        one.settimeout(5)
        one.connect((host, port))

def udp(host, port):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as one:
        one.sendto(b"x", (host, port))

attempts = {}
for host in hostile.given()["hosts"]:
    for port in (53, 80, 443):
        attempts[f"tcp {host} {port}"] = seconds(lambda: tcp(host, port))
        attempts[f"udp {host} {port}"] = seconds(lambda: udp(host, port))
for name in ("example.com", "metadata.google.internal", "a.very.long.label.attacker.test"):
    attempts[f"dns {name}"] = seconds(lambda: socket.getaddrinfo(name, 80))
attempts["broadcast"] = seconds(lambda: udp("255.255.255.255", 67))
with open("/proc/net/dev") as devices:
    interfaces = [line.split(":")[0].strip() for line in devices if ":" in line]
with open("/proc/net/route") as file:
    routes = file.readlines()[1:]
hostile.show({"attempts": attempts, "interfaces": interfaces, "by_name": socket.if_nameindex(), "routes": routes})
"""

LISTENER = """
import hostile, socket, threading

tcp = socket.create_server(("0.0.0.0", 45454), backlog=8)
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.bind(("0.0.0.0", 45454))
abstract = socket.socket(socket.AF_UNIX)
abstract.bind(b"\\0neighbour")
abstract.listen()
visitors = []

def serve(one):
    one.settimeout(hostile.given())
    try:
        while True:
            visitors.append(str(one.accept() if one is not udp else one.recvfrom(1)))
    except TimeoutError:
        pass

threads = [threading.Thread(target=serve, args=(one,)) for one in (tcp, udp, abstract)]
for thread in threads:
    thread.start()
socket.create_connection(("127.0.0.1", 45454)).close()  # it does listen
socket.socket(socket.AF_UNIX).connect(b"\\0neighbour")
print("listening", flush=True)
for thread in threads:
    thread.join()
print(len(visitors))
"""

CONNECTOR = """
import hostile, socket

def abstract():
    with socket.socket(socket.AF_UNIX) as one:
        one.connect(b"\\0neighbour")

def datagram():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.connect(("127.0.0.1", 45454))
        one.send(b"x")
        one.settimeout(1)
        one.recv(1)

hostile.show({
    "tcp": hostile.tried(socket.create_connection, ("127.0.0.1", 45454), 1),
    "tcp by any address": hostile.tried(socket.create_connection, ("0.0.0.0", 45454), 1),
    "udp": hostile.tried(datagram),
    "abstract": hostile.tried(abstract),
})
"""
HOSTS = ("1.1.1.1", "8.8.8.8", "169.254.169.254", "10.0.0.1", "172.17.0.1", "192.168.1.1", "100.64.0.1", "2606:4700::1")


async def test_a_program_reaches_no_host_and_no_name_server_and_has_only_a_loopback(caller: Caller) -> None:
    """Probe 41: offline tool."""
    seen = await caller.probe(OFFLINE, {"hosts": HOSTS})

    assert {name: kind for name, (kind, _) in seen["attempts"].items() if kind == "reached"} == {}
    assert {name: spent for name, (_, spent) in seen["attempts"].items() if spent >= 1.0} == {}
    assert seen["interfaces"] == ["lo"]
    assert [name for _, name in seen["by_name"]] == ["lo"]
    assert seen["routes"] == []


async def test_a_neighbours_listening_sockets_refuse_every_connection(caller: Caller) -> None:
    """Probe 54: neighbours."""
    async with caller.running(LISTENER, b"listening", 2.0) as listener:
        refused = await caller.probe(CONNECTOR)
        outcome = await listener

    assert refused == dict.fromkeys(("tcp", "tcp by any address", "udp", "abstract"), "ECONNREFUSED")
    assert outcome.stdout.text.split() == ["listening", "2"], f"somebody else came in: {outcome}"
