"""What is wrong on the command line is one line on stderr, and its exit status."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Final

import pytest

from conformance import scenarios
from conformance.importing import fault_of_scenarios
from tests.cli.running import here, python
from tests.cli.test_simulate_command import STATE
from topologies import Tree, pack

NODE: Final = "sys/devices/system/node"
HEADER: Final = {"kind": "header", "schema": 2, "pinproof": "0", "started": "", "machines": []}
TEXTS: Final = {
    "garbage": "\x1b[2Jnot json",
    "state": STATE,
    "torn": STATE[:-9],
    "pods.yaml": "kind: Pod\n---\nkind: Pod\n",
    "text.tar": "hello",
    "bad.jsonl": "<html>\n",
    "old.jsonl": '{"kind":"header","schema":1}\n',
    "cut.jsonl": json.dumps({**HEADER, "subject": {"name": "kubelet:1.36", "release": "1.36"}}),
    "slip.yaml": "kind: KubeletConfiguration\ncpuManagerPolicyOption: {}\n",
    "ids.toml": '[[known]]\nscenario = "pool/no"\nreason = "r"\nexpires = 2999-01-01\n',
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of which something is wrong. No command changes them."""
    tmp_path = tmp_path_factory.mktemp("wrong")
    for name, text in TEXTS.items():
        (tmp_path / name).write_text(f"{text}\n" if name == "cut.jsonl" else text)
    (tmp_path / "torn.tar.xz").write_bytes(b"\xfd7zXZ\x00 and no more")
    pack(Tree({}), tmp_path / "empty.tar")
    mine = {"sys/devices/system/cpu/online": "0-3\n"}
    pack(Tree(mine), tmp_path / "mine.tar")
    pack(Tree({**mine, f"{NODE}/node0/cpulist": "0-3\n"}), tmp_path / "with-a-node.tar")
    core_id = tmp_path / "tree/sys/devices/system/cpu/cpu0/topology/core_id"
    core_id.parent.mkdir(parents=True)
    core_id.write_text("0\n")
    (tmp_path / "empty").mkdir()
    (tmp_path / "above/node7").mkdir(parents=True)
    (tmp_path / "above/node7/certificate.json").touch()
    return tmp_path


SHARD: Final = "it is K/N with K from 1 to N, as 2/3"
REQUESTS: Final = "it is CPU requests such as 4,2,1.5,1+1"
NO_FILE: Final = "No such file"
INCIDENT: Final = "machine/cpu-upgrade-incident"
#: Pods and settings, which a matrix has of its own.
OF_NO_MATRIX: Final = (
    "--pods 2", "--state state", "--oldest-first", "--config pods.yaml", "--policy none",
    "--policy-option full-pcpus-only=true", "--topology-manager-policy restricted",
    "--topology-manager-scope pod", "--topology-manager-policy-option a=b",
    "--feature-gate CPUManager=true", "--reserved 0", "--kube-reserved cpu=1",
    "--system-reserved cpu=1", "--to-config pods.yaml", "--to-machine 1s-1n-4c-smt2",
    "--by kill", "--by stop", "--reboot", "--killed", "--node mine.tar",
)  # fmt: skip
#: The last word is what is wrong, and is named.
NAMED: Final = (
    "run --machine no-such-machine", "run --machine 1s-1n-4c-smt3x", "run --machine torn.tar.xz",
    "run --subject miniature:true-sizes --release 1.5", "run --release 1.5",
    "run --release nonsense", "run --machine 1s-1n-4c-smt2 --behaviour nonsense",
    "run --no-such-option", "run -k 'not @'", "run -p no_such_plugin", "machines 'no such thing'",
    "simulate --pods 1 --release nonsense", "simulate --pods 1 --release 1.5",
    "simulate --pods 1 --release 1.8", "simulate --pods 1 --release 1.99",
    "upgrade 1.36 1.37 --model --node absent.tar.xz",
    "upgrade 1.36 1.37 --model --node torn.tar.xz", "upgrade 1.36 1.37 --model --node pods.yaml",
    "upgrade 1.36 1.37 --model --machine no-such", "upgrade 1.36 1.36 --model --to-machine no-such",
    "upgrade 1.36 1.36 --model --to-config no-such.yaml", "upgrade --model 1.36 1.99",
    "upgrade --model 1.36 latest", "upgrade --model 1.36 1.8", "advise --release 1.99",
    "advise --machine nowhere", "hunt --machine no-such", "hunt --resume nowhere",
    "hunt merge nowhere", "hunt --crash-points nothing", "explore reference --release 1.99",
    "explore reference --release soon", "fleet up 1s-1n-4c-smt2 --release 1.5",
    "capture --node nothing.toml",
)  # fmt: skip
USAGE: Final = {
    **{words: shlex.split(words)[-1] for words in NAMED},
    # Machines, scenarios and subjects.
    "run --machine ''": "a machine's name is empty",
    "draw ''": "a machine's name is empty",
    "export '' out": "a machine's name is empty",
    "machines ''": "a machine's name is empty",
    "run 2s-2n-8c-smt2": "a machine is named with --machine",
    "run --machine ./tree": "cpu/online",  # without which the kubelet would find no CPUs
    "draw ./mine.tar": "pinproof: mine: the kubelet would not start: ",
    "simulate --machine ./mine.tar --pods 1": "pinproof: mine: the kubelet would not start: ",
    "run -k no-such-scenario": "unknown scenario 'no-such-scenario'",
    "run -k cpu-upgrade-incidnt": f"did you mean {INCIDENT}",
    "run --subject nothing": "unknown subject 'nothing'",
    "run --subject reference:x": "takes nothing after it",
    "run --subject miniature:none": "unknown miniature 'none'",
    "run --subject miniature:uncore-best-fit=off": "every release does that already",
    "run --subject miniature:ordered-allocation=off --release 1.21": "1.21 does that already",
    "run --subject kubelet:/no/such/file": "/no/such/file",
    "run --subject kubelet:/bin/true": "/bin/true",
    "run --machine 1s-1n-4c-smt2 --behaviour true-sizes=perhaps": "true-sizes",
    "run --behaviours /no/such.toml": "/no/such.toml: No such file",
    "explore reference --behaviours /no/such.toml": "/no/such.toml: No such file",
    "run --subject 'kubelet:1.36?put=/etc/x=/no/such'": "/no/such: no such file",
    "build kubelet": "RELEASE is missing",
    "build kubelet 1.36 --tree /no --patches /no": "exclude one another",
    "build kubelet 1.36 --patches /no/such": "--patches /no/such: no such folder",
    "build kubelet 1.36 --tree /no/such": "/no/such is not a checkout",
    "build kubelet --go-mod /no/such": "/no/such: no such file",
    "witnesses 1.8": "there is no recording of a kubelet 1.8: there are 1.",
    # What pytest refuses.
    "run --machin x": "no such option: --machin; did you mean --machine?",
    "run --lff": "no such option: --lff; did you mean --lf?",
    "run -n two": "invalid parse_numprocesses value: 'two'",
    # Parts of a run.
    "run --resume": "--resume goes on in --report DIR, which is not given",
    **{
        f"run --shard={text}": f"--shard {text}: {SHARD}"
        for text in ("0/3", "4/3", "a", "1/", "1/0", "-1/2", "1/99999")
    },
    # Result streams and known failures.
    "report": "name a result stream",
    "report absent.jsonl": f"absent.jsonl: {NO_FILE} or directory",
    "report bad.jsonl": "bad.jsonl:1: not a record",
    "report old.jsonl": "old.jsonl:1: schema 1 is older than 2",
    "report cut.jsonl -o x": "--output is for a --format other than text",
    "report cut.jsonl -f json -o no/x": f"--output no/x: {NO_FILE}",
    "report cut.jsonl --format known": "cut.jsonl: cut off: the footer is missing",
    "compare absent.jsonl cut.jsonl": f"absent.jsonl: {NO_FILE}",
    "run --known absent.toml": f"absent.toml: {NO_FILE}",
    "run --known ids.toml": "unknown scenario 'pool/no'",
    f"run -k {INCIDENT} --report text.tar": "pinproof: --report text.tar: File exists",
    # Certificates and submissions.
    "verify gone.json": "pinproof: gone.json: No such file or directory",
    "verify cut.jsonl": "it is a result stream and no certificate",
    "verify empty": (
        "empty/certificate.json: No such file or directory; `pinproof certify` makes "
        "certificates, and `pinproof run` makes none"
    ),
    "verify above": (
        "above/certificate.json: No such file or directory; there is above/node7/certificate.json"
    ),
    "submission table empty": "there is no submission",
    # Drawn and simulated.
    "draw 1s-1n-4c-smt2 --state nothing": f"pinproof: nothing: {NO_FILE}",
    "draw 1s-1n-4c-smt2 --state garbage": (
        "pinproof: garbage: kubelet 1.36 cannot restore it: invalid character"
    ),
    "draw 1s-1n-4c-smt2 --state torn": (
        "pinproof: torn: kubelet 1.36 cannot restore it: unexpected end of JSON input"
    ),
    "draw 1s-1n-4c-smt2 --held web": "pinproof: --held 'web': it is OWNER=CPUS",
    "draw 1s-1n-4c-smt2 --held web=1-x": "pinproof: --held '1-x': ",
    "draw 1s-1n-4c-smt2 --reserved x": "pinproof: --reserved 'x': ",
    "draw 1s-1n-4c-smt2 --svg no/folder/x.svg": f"pinproof: no/folder/x.svg: {NO_FILE}",
    "draw 1s-1n-4c-smt2 --pods x": f"pinproof: --pods 'x': {REQUESTS}",
    "draw 1s-1n-4c-smt2 --config pods.yaml": "pinproof: pods.yaml: it must hold one Kubelet",
    "draw 1s-1n-4c-smt2 --release x": "pinproof: not a Kubernetes release",
    "simulate": "pinproof: simulate needs --pods, --state or both",
    "simulate --pods '2 1.5'": f"pinproof: --pods '2 1.5': {REQUESTS}",
    "simulate --pods 2 --state none": f"pinproof: none: {NO_FILE} or directory",
    "simulate --pods 2 --svg no/x.svg": f"pinproof: no/x.svg: {NO_FILE} or directory",
    "simulate --pods 1 --feature-gate X=true": (
        "pinproof: the feature gate X: the model of 1.36 has none"
    ),
    "simulate --pods 1 --policy best": (
        'pinproof: the kubelet would not start: failed to run Kubelet: unknown policy: "best"'
    ),
    "simulate --machine 1s-1n-4c-smt2 --state state --reserved 1": (
        'pinproof: state: the kubelet would not start: not all reserved cpus: "1"'
    ),
    "simulate --machine ./with-a-node.tar --pods 1": (
        "pinproof: with-a-node: the kubelet would not start: "
    ),
    # Rehearsed.
    "upgrade 1.36 exec:driver": "exec:driver: upgrade takes a release such as 1.36",
    "upgrade 1.36 kubelet:1.37 --model": "kubelet:1.37: with --model it is a release",
    "upgrade kubelet:/no/such 1.37": "/no/such",
    "upgrade kubelet:/bin/true 1.37": "/bin/true is not a kubelet",
    "upgrade 1.37 kubelet:/bin/true": "/bin/true is not a kubelet",
    "upgrade 1.36 kubelet:/no/such": "/no/such",  # before 1.36 would be built
    "upgrade 1.36 1.37 --model --node mine.tar": "mine.tar: it has no configuration of a kubelet",
    "upgrade 1.36 1.37 --model --node 1s-1n-4c-smt2": "it has no configuration of a kubelet",
    "upgrade 1.36 1.37 --model --pods x": "--pods 'x'",
    "upgrade 1.36 1.37 --model --reserved x": "--reserved 'x'",
    "upgrade 1.36 1.36 --model": "FROM and TO are one kubelet (1.36): name another one, what",
    "upgrade 1.36 1.37 1.32 --model": "more releases than FROM and TO, --report",
    "upgrade 1.36 1.37 --model --resume": "more releases than FROM and TO, --report",
    "upgrade 1.36 1.37 --model --matrix --resume": "--report DIR, which is not given",
    "upgrade 1.36 1.36.4 --model --matrix": "--matrix takes each minor once",
    "upgrade 1.36 kubelet:./k --model --matrix": "kubelet:./k",
    **{
        f"upgrade 1.36 1.37 --model --matrix {words}": f"not {words.partition(' ')[0]}"
        for words in OF_NO_MATRIX
    },
    # Advised.
    "advise --policy-option full-pcpu-only=true": (
        "pinproof: the kubelet would not start: failed to run Kubelet: new static policy error: "
        'unknown CPU Manager Policy option: "full-pcpu-only"'
    ),
    "advise --pods nothing.yaml": "pinproof: --pods 'nothing.yaml'",
    "advise --config nothing.yaml": "pinproof: nothing.yaml",
    "advise --config slip.yaml": "did you mean cpuManagerPolicyOptions?",
    # Searched.
    "hunt --shard 3/2": "--shard 3/2",
    "hunt --release 1.99": "--release 1.99",
    "hunt --ignore nothing": "the promises are",
    "hunt --shapes round": "--shapes round: it is regular, uneven or all",
    # Explored.
    "explore reference --machine nowhere": "there is no machine 'nowhere'",
    "explore reference --shard 3/2": "--shard 3/2",
    "explore miniature:nothing": "nothing",
    "explore reference --report /proc/nowhere": "--report /proc/nowhere: ",
    "explore reference --keep-plan /nowhere/plan": "--keep-plan /nowhere/plan: ",
    "run --explore 1": "--explore writes to --report DIR, which is not given",
    # Fleets.
    "fleet up no-such-machine": "there is no machine 'no-such-machine'",
    "fleet up ''": "a machine's name is empty",
    **{
        f"fleet up 1s-1n-4c-smt2={text}": f"'1s-1n-4c-smt2={text}': it is MACHINE=N with N from 1"
        for text in ("0", "-1", "two", "1.5", "99999", "")
    },
    "fleet up 1s-1n-4c-smt2 --name a/b": "--name 'a/b': it is at most 20 of a-z, 0-9 and -",
    "fleet up 1s-1n-4c-smt2 --release soon": "--release 'soon': it is a release such as 1.36",
    "fleet up 1s-1n-4c-smt2 --reserved x": "--reserved 'x'",
    "fleet up 1s-1n-4c-smt2 --devices gpu=2": "--devices 'gpu=2': it is DOMAIN/NAME=N",
    "fleet up 1s-1n-4c-smt2 --devices example.com/gpu=0": "it is DOMAIN/NAME=N with N from 1",
    "fleet up 1s-1n-4c-smt2 --dra-driver nic=2": "--dra-driver 'nic=2': it is DOMAIN=N",
    "fleet up 1s-1n-4c-smt2 --dra-driver nic.example.com=129": "it is DOMAIN=N with N from 1",
    "fleet up 1s-1n-4c-smt2 --release 1.33 --dra-driver nic.org=2": "it needs --release 1.34",
    "fleet down --name no-such": "--name no-such: there is no such fleet",
    "fleet draw --name no-such": "--name no-such: there is no such fleet",
    # Built, captured and imported.
    "driver build 1.36 --replace empty": "empty is not a checkout of k8s.io/kubernetes",
    "capture -o torn.tar.xz": "torn.tar.xz: it is there already",
    "machines 1s-1n-4c-smt2 --export torn.tar.xz": "torn.tar.xz: it is there already",
    "capture nonsense:x -o x.tar.xz": "nonsense:x",
    "capture ssh://node7 --pods pods.yaml": "--pods is taken only with --node",
    "capture ssh://node7 --sudo": "--sudo is taken only with --node",
    "capture local: --node --why x": "--why is not taken with --node",
    "capture local: --node --complete": "--complete is not taken with --node",
    "capture qemu:2s-2n-4c-smt2 --node": "qemu:2s-2n-4c-smt2",
    "capture qemu:7z -o x.tar.xz": "7z",
    "capture nothing.tar -o out.tar": "there is no such file or folder",
    "capture empty.tar -o out.tar": (
        "not a machine: neither sys/devices/system/cpu nor proc/cpuinfo names a CPU"
    ),
    "capture text.tar -o out.tar": "not a tar archive",
    "build image --name 'No Name'": "pinproof: --name 'No Name': not the name of an image, such as",
    "build image --kubelet /nowhere": "pinproof: --kubelet /nowhere: no such file",
    "build image -o /nowhere/image.tar": (
        "pinproof: --output /nowhere/image.tar: the archive cannot be "
    ),
    "build image -o /": "pinproof: --output /: a folder, not a file",
    # Written for a forge, and printed for Sonobuoy.
    **{
        f"ci init github --package {one}": f"--package {one}: it is git+https://"
        for one in ("pinproof", "pinproof==0.1.0", "/home/me/pinproof")
    },
    **{
        f"job sonobuoy --image i {words}": said
        for words, said in (
            ("ssh://root@node7", "ssh://root@node7: a node certifies itself, and is not named"),
            ("--max-risk reboot", "--max-risk reboot: it would end the pod that certifies"),
            ("--max-risk all", "--max-risk 'all': it is one of read-only, pods"),
            ("--allow reboot", "--allow 'reboot': it is one of foreign-workloads, static-pods"),
            ("--kubeconfig f", "--kubeconfig: not an option of"),
            ("--workload-image A^", "--workload-image 'A^': not the name of an image"),
            ("--name A", "--name 'A': a name has small letters"),
        )
    },
}


#: What is wrong is found after the answer.
PRINTED: Final = ("simulate --pods 2 --svg no/x.svg",)


def _contents(folder: Path) -> dict[Path, bytes]:
    return {one: one.read_bytes() if one.is_file() else b"" for one in folder.rglob("*")}


@pytest.mark.parametrize("words", USAGE)
def test_wrong_usage_is_one_line(folder: Path, words: str) -> None:
    before = _contents(folder)
    done = here(*shlex.split(words), cwd=folder, status=2, XDG_CACHE_HOME=str(folder / "empty"))
    (line,) = done.stderr.strip().splitlines()
    assert USAGE[words] in line
    assert line.startswith(("pinproof: ", "ERROR: "))  # the second is pytest's own
    assert line.isprintable()
    assert (done.stdout == "") is (words not in PRINTED)
    assert _contents(folder) == before


@pytest.mark.parametrize(
    ("target", "said"),
    [("ssh://nobody@127.0.0.1:1", "127.0.0.1"), ("./empty", "empty: incomplete capture: ")],
)
def test_what_cannot_be_captured_is_one_line(folder: Path, target: str, said: str) -> None:
    done = here("capture", target, "-o", "x.tar.xz", cwd=folder, status=3)
    (line,) = done.stderr.strip().splitlines()
    assert said in line
    assert not (folder / "x.tar.xz").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--machine 1s-1n-4c-smt1 -k 'whole and nothing'", "nothing was run"),
        ("--machine 1s-1n-4c-smt1 -k packing/whole-socket", ""),
        ("-k machine/cpu-upgrade-incident --floor 2", ""),
    ],
)
def test_too_few_scenarios_are_no_verdict(tmp_path: Path, words: str, said: str) -> None:
    done = here("run", *shlex.split(words), cwd=tmp_path, status=4)
    assert "Traceback" not in done.stdout + done.stderr
    assert said in done.stdout + done.stderr
    assert not list(tmp_path.iterdir())


# -- a file of scenarios that cannot be imported ---------------------------------------------------

PLACE: Final = Path(scenarios.__file__).with_name("freed.py")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("\nGone\n", "2: this file of scenarios cannot be imported: NameError: name 'Gone'"),
        ("import no_such_module", "1: this file of scenarios cannot be imported: ModuleNotFound"),
        ("x = 1\ndef f(:\n", "2: this file of scenarios cannot be imported: SyntaxError: "),
    ],
)
def test_file_and_line_are_named(text: str, said: str) -> None:
    with pytest.raises((NameError, ImportError, SyntaxError)) as caught:
        exec(compile(text, str(PLACE), "exec"), {})
    assert fault_of_scenarios(caught.value).startswith(f"{PLACE}:{said}")


def test_an_error_of_elsewhere_is_none_of_theirs() -> None:
    with pytest.raises(NameError) as caught:
        exec(compile("Gone", __file__, "exec"), {})
    assert fault_of_scenarios(caught.value) == ""


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package ``conformance``, whose file ``pool.py`` cannot be imported."""
    folder = tmp_path_factory.mktemp("broken")
    (folder / "conformance/scenarios").mkdir(parents=True)
    real = PLACE.parents[1]
    for path in (*real.iterdir(), *PLACE.parent.iterdir()):
        made = folder / "conformance" / path.relative_to(real)
        if path != PLACE.parent and path.name not in ("pool.py", "__pycache__"):
            made.symlink_to(path)
    (folder / "conformance/scenarios/pool.py").write_text("\nfrom reference import gone\n")
    return folder


@pytest.mark.parametrize(
    ("words", "before"),
    [
        (("pinproof", "run", "-k", "pool/"), "pinproof: "),
        (("pinproof", "explain", "pool/shrinks-and-grows"), "pinproof: "),
        (("pinproof", "probe", "ssh://root@127.0.0.1:1"), "pinproof: "),
        (("pinproof", "verify", "certificate.json"), "pinproof: "),
        (("pinproof", "report", "--witnesses", "all"), "pinproof: "),
        (("pytest", "--pyargs", "conformance.suite"), "ERROR: "),
    ],
    ids=lambda one: " ".join(one[:2]) if isinstance(one, tuple) else "",
)
def test_a_command_says_it_in_one_line(broken: Path, words: tuple[str, ...], before: str) -> None:
    """With the status of wrong usage, which pytest has as 4."""
    done = python("-m", *words, cwd=broken, PYTHONPATH=str(broken))
    place = broken / "conformance/scenarios/pool.py"
    said = f"{before}{place}:2: this file of scenarios cannot be imported: ImportError: "
    (line,) = filter(None, done.stderr.splitlines())
    assert line.startswith(said)
    assert (done.returncode, done.stdout.strip()) == (4 if words[0] == "pytest" else 2, "")


@pytest.mark.needs("ordinary user")  # root may search every folder
@pytest.mark.parametrize(
    "words",
    [
        ("run", "--subject", "kubelet:{}/k"),
        ("simulate", "--machine", "1s-1n-4c-smt1", "--pods", "{}/p"),
        ("verify", "{}/c"),
    ],
    ids=lambda one: one[0],
)
def test_a_folder_that_may_not_be_searched_is_one_line(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    shut = tmp_path / "shut"
    shut.mkdir(mode=0)
    done = python("-m", "pinproof", *(one.format(shut) for one in words))
    shut.chmod(0o700)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [f"pinproof: {shut}/{words[-1][-1]}: Permission denied"]
