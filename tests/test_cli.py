"""The command line: what each command prints, its JSON, its exit codes, and where models come from."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
import torch
from torch.export import Dim

import mlxify
from mlxify import cli

FINE, FAILED, USAGE, UNSUPPORTED = range(4)
COMMANDS = ["convert", "run", "profile", "inspect", "check", "ops", "doctor"]

MODELS = """
import torch

class Net(torch.nn.Module):
    def __init__(self, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.fc = torch.nn.Linear(4, 3)

    def forward(self, x, scale=None):
        y = self.fc(x)
        return {"y": y if scale is None else y * scale, "twice": y + y}

window = torch.library.custom_op("acme::window", torch.abs, mutates_args=(), schema="(Tensor x) -> Tensor")
window.register_fake(torch.empty_like)

class Unsupported(torch.nn.Module):
    def forward(self, x):
        return torch.ops.acme.window(x) + 1

class Branches(torch.nn.Module):
    def forward(self, x, which):
        return torch.cond(which, lambda x: torch.ops.acme.window(x), lambda x: x + 1, (x,))

class Norms(torch.nn.Module):
    def forward(self, x):
        one = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
        return one * torch.rsqrt(one.pow(2).mean(0, keepdim=True) + 1e-6)

class DataDependent(torch.nn.Module):
    def forward(self, x):
        return x if x[0] > 0 else x + 1

def other():
    return Net(seed=1)

def exported():
    return torch.export.export(Net(), (torch.ones(2, 4),))

def raises():
    raise RuntimeError("no weights here")

def number():
    return 3

net = Net()
"""


@dataclass
class Result:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        (line,) = self.out.splitlines()
        return json.loads(line)


Run = Callable[..., Result]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cli")
    (folder / "cli_models.py").write_text(MODELS)
    return folder


@pytest.fixture
def run(folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Iterator[Run]:
    """Run the command line in this process, in the folder of the models."""

    def call(*args: str) -> Result:
        capfd.readouterr()
        monkeypatch.setattr(sys, "argv", ["mlxify", *args])
        try:
            cli.main()
            code: Any = 0
        except SystemExit as end:
            code = end.code
        out, err = capfd.readouterr()
        return Result(code or 0, out, err)

    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield call


@pytest.fixture(scope="module")
def program(folder: Path) -> str:
    """A program with a dynamic batch and two outputs."""
    sys.path.insert(0, str(folder))
    try:
        from cli_models import Net  # type: ignore[import-not-found]
    finally:
        sys.path.pop(0)
    batch = Dim("batch", min=1, max=64)
    mlxify.convert(Net().eval(), (torch.ones(2, 4),), dynamic_shapes=({0: batch},)).save(
        folder / "net.safetensors"
    )
    return "net.safetensors"


# Help and usage


def test_help_names_the_commands_and_exit_codes(run: Run) -> None:
    result = run("--help")
    assert result.code == FINE
    assert all(command in result.out for command in COMMANDS)
    assert "Exit codes: 0 fine, 1 a check failed, 2 wrong usage" in result.out


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_an_example(run: Run, command: str) -> None:
    result = run(command, "--help")
    assert result.code == FINE
    assert "Examples:" in result.out and f"\n mlxify {command}" in result.out


USAGE_ERRORS = {
    "no such command": (["frobnicate"], "No such command"),
    "no output": (["convert", "cli_models:Net"], "--output"),
    "not a model": (["ops", "resnet"], "'resnet' is no model"),
    "no module": (["ops", "no_such_module:Net"], "cannot import 'no_such_module'"),
    "no factory": (["ops", "cli_models:Nothing"], "has no 'Nothing'"),
    "not a module": (["ops", "cli_models:number"], "gives a int, not an nn.Module"),
    "a factory that raises": (["ops", "cli_models:raises"], "RuntimeError: no weights here (cli_models.py:"),
    "inputs needed": (["ops", "cli_models:Net"], "needs example inputs"),
    "no such input": (["ops", "cli_models:Net", "-i", "q=float32[2,4]"], "no input 'q'; it has x, scale"),
    "no such input of an exported model": (
        ["ops", "cli_models:exported", "-i", "q=3"],
        "no input 'q'; it has x",
    ),
    "not NAME=VALUE": (["ops", "cli_models:Net", "-i", "x"], "should be NAME=VALUE"),
    "no such dtype": (["ops", "cli_models:Net", "-i", "x=float33[2]"], "'float33' is no dtype"),
    "not a size": (["ops", "cli_models:Net", "-i", "x=float32[2,q]"], "'q' is no size"),
    "given twice": (["ops", "cli_models:Net", "-i", "x=1", "-i", "x=2"], "is given twice"),
    "no such file": (["ops", "cli_models:Net", "-i", "x=nothing.npy"], "neither a file nor a number"),
    "wrong kind of file": (["ops", "cli_models:Net", "-i", "x=cli_models.py"], ".npy, .npz or .safetensors"),
    "no pt2 file": (["ops", "nothing.pt2"], "there is no file 'nothing.pt2'"),
    "no program": (["run", "nothing.safetensors"], "nothing.safetensors: No such file"),
    "not a program": (["inspect", "cli_models.py"], "cli_models.py is not a safetensors file"),
    "no such dtype to convert to": (
        ["convert", "cli_models:Net", "-i", "x=float32[2,4]", "-o", "a.safetensors", "--dtype", "float33"],
        "float33",
    ),
    "no such folder": (
        ["convert", "cli_models:Net", "-i", "x=float32[2,4]", "-o", "no/such/a.safetensors"],
        "no folder 'no/such'",
    ),
    "the exporter refuses": (
        ["ops", "cli_models:DataDependent", "-i", "x=float32[2]"],
        "torch.export refuses",
    ),
}


@pytest.mark.parametrize(("args", "message"), USAGE_ERRORS.values(), ids=USAGE_ERRORS)
def test_usage_errors(run: Run, args: list[str], message: str) -> None:
    result = run(*args)
    assert result.code == USAGE, result
    assert message in " ".join(result.err.replace("│", "").split()) and "Traceback" not in result.err


# convert


def test_convert_from_a_factory(run: Run, folder: Path) -> None:
    result = run("convert", "cli_models:Net", "-i", "x=float32[batch=2:1-8,4]", "-o", "a.safetensors")
    assert result.code == FINE, result.err
    assert "a.safetensors" in result.out and "instructions" in result.out
    program = mlxify.load(folder / "a.safetensors")
    assert program(np.ones((8, 4), np.float32))["y"].shape == (8, 3)
    with pytest.raises(mlxify.InputError, match="at most 8"):
        program(np.ones((9, 4), np.float32))


def test_convert_as_json(run: Run, folder: Path) -> None:
    report = run("convert", "cli_models:Net", "-i", "x=float32[2,4]", "-o", "b.safetensors", "--json").json
    assert report["bytes"] == (folder / "b.safetensors").stat().st_size
    assert report["weights"] == 2 and report["weight_bytes"] == 60 and report["output"] == "b.safetensors"
    assert all(
        report[key] >= 0 for key in ("export_seconds", "lower_seconds", "save_seconds", "instructions")
    )


def test_arguments_have_the_order_of_the_signature(run: Run, folder: Path) -> None:
    run("convert", "cli_models:Net", "-i", "scale=float32[3]", "-i", "x=float32[2,4]", "-o", "c.safetensors")
    assert mlxify.load(folder / "c.safetensors").graph.methods["forward"].parameters == ["x", "scale"]


@pytest.mark.parametrize("source", ["cli_models:other", "cli_models:net", "cli_models:exported"])
def test_factories_may_be_functions_modules_and_exported_programs(run: Run, source: str) -> None:
    result = run("convert", source, "-i", "x=float32[2,4]", "-o", "d.safetensors")
    assert result.code == FINE, result.err


def test_convert_from_a_pt2_file(run: Run, folder: Path) -> None:
    from cli_models import Net

    exported = torch.export.export(Net().eval(), (torch.ones(2, 4),), dynamic_shapes=({0: Dim("batch")},))
    torch.export.save(exported, folder / "net.pt2")
    assert run("convert", "net.pt2", "-o", "e.safetensors").code == FINE
    assert mlxify.load(folder / "e.safetensors")(mx.ones((5, 4)))["y"].shape == (5, 3)
    result = run("convert", "net.pt2", "-o", "f.safetensors", "--dtype", "bfloat16")
    assert result.code == FINE, result.err
    assert mlxify.load(folder / "f.safetensors").graph.weights["fc.weight"].dtype == mx.bfloat16
    (folder / "broken.pt2").write_bytes(b"not a zip file")
    assert run("convert", "broken.pt2", "-o", "g.safetensors").code == USAGE


def test_unsupported_ops_end_with_3(run: Run, folder: Path) -> None:
    for command in (["convert", "-o", "h.safetensors"], ["check"]):
        result = run(command[0], "cli_models:Unsupported", "-i", "x=float32[3]", *command[1:])
        assert result.code == UNSUPPORTED
        assert (
            "acme.window" in result.err and "cli_models.py:" in result.err and "Traceback" not in result.err
        )
    assert not (folder / "h.safetensors").exists()


# run


def test_run_with_random_inputs(run: Run, program: str) -> None:
    result = run("run", program)
    assert result.code == FINE, result.err
    assert "y = float32[8, 3]" in result.out and "twice = float32[8, 3]" in result.out and " ms" in result.out
    assert run("run", program).out.splitlines()[:3] == result.out.splitlines()[:3]  # the same seed
    assert run("run", program, "--seed", "1").out.splitlines()[:3] != result.out.splitlines()[:3]


def test_run_as_json(run: Run, program: str) -> None:
    report = run("run", program, "--input", "x=float32[5,4]", "--repeat", "3", "--json").json
    assert report["outputs"] == {"y": ["float32", [5, 3]], "twice": ["float32", [5, 3]]}
    assert report["median_seconds"] > 0 and report["saved"] is None


@pytest.mark.parametrize("kind", ["npy", "npz", "npz:b", "safetensors", "safetensors:b"])
def test_run_with_inputs_from_files(run: Run, program: str, folder: Path, kind: str) -> None:
    x = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    suffix, _, key = kind.partition(":")
    arrays = {"b": x, "other": x + 1} if key else {"only": x}
    path = folder / f"in.{suffix}"
    if suffix == "npy":
        np.save(path, x)
    elif suffix == "npz":
        np.savez(path, **arrays)  # type: ignore[arg-type]
    else:
        mx.save_safetensors(str(path), {name: mx.array(a) for name, a in arrays.items()})
    result = run("run", program, "-i", f"x=in.{kind}", "-o", "out.npz")
    assert result.code == FINE, result.err
    expected = mlxify.load(folder / program)(x)
    with np.load(folder / "out.npz") as saved:
        np.testing.assert_array_equal(saved["y"], np.array(expected["y"]))
        np.testing.assert_array_equal(saved["twice"], np.array(expected["twice"]))


def test_run_saves_safetensors(run: Run, program: str, folder: Path) -> None:
    assert run("run", program, "-o", "out.safetensors").code == FINE
    arrays = mx.load(str(folder / "out.safetensors"))
    assert isinstance(arrays, dict) and set(arrays) == {"y", "twice"}
    assert run("run", program, "-o", "out.npy").code == USAGE  # one array only


@pytest.mark.parametrize("text", ["x=float32[2,5]", "x=int64[2,4]", "z=float32[2,4]", "x=float32[100,4]"])
def test_run_refuses_wrong_inputs(run: Run, program: str, text: str) -> None:
    result = run("run", program, "-i", text)
    assert result.code == USAGE and result.err.startswith("mlxify: ") and "Traceback" not in result.err


def test_run_names_the_methods(run: Run, program: str) -> None:
    result = run("run", program, "--method", "backward")
    assert result.code == USAGE and "it has forward" in result.err


# inspect


def test_inspect(run: Run, program: str) -> None:
    result = run("inspect", program)
    assert result.code == FINE
    assert "forward(x: float32[" in result.out and ": 1 to 64" in result.out and "linear" in result.out
    listing = run("inspect", program, "--weights", "--instructions").out
    assert (
        "fc.weight" in listing and "48" in listing and "= linear(" in listing and "cli_models.py:" in listing
    )


def test_inspect_as_json(run: Run, program: str) -> None:
    report = run("inspect", program, "--json").json
    method = report["methods"]["forward"]
    assert list(method["inputs"]) == ["x"] and len(method["outputs"]) == 2
    assert [*method["sizes"].values()] == [[1, 64]]
    assert report["weights"]["fc.bias"] == {"dtype": "float32", "shape": [3], "bytes": 12}
    assert report["counts"]["linear"] == 1 and "text" not in report
    assert "linear(" in run("inspect", program, "--json", "--instructions").json["text"]


# check


def test_check(run: Run) -> None:
    result = run("check", "cli_models:Net", "-i", "x=float32[2,4]", "--layers")
    assert result.code == FINE, result.err
    assert (
        "PyTorch and MLX agree" in result.out and "module, worst first" in result.out and "fc" in result.out
    )


def test_check_as_json(run: Run) -> None:
    report = run("check", "cli_models:Net", "-i", "x=float32[2,4]", "--layers", "--json").json
    assert report["ok"] and len(report["outputs"]) == 2
    assert {row["name"] for row in report["layers"]} >= {"fc"}
    assert all(row["max_rel"] <= row["tolerance"] for row in report["outputs"])


def test_check_shows_what_is_fused_and_what_nearly_is(run: Run) -> None:
    args = ("check", "cli_models:Norms", "-i", "x=float32[2,4]")
    result = run(*args)
    assert result.code == FINE, result.err
    assert "rms_norm" in result.out and "cli_models.py" in result.out and "not over the" in result.out
    fused, missed = run(*args, "--json").json["fusions"]
    assert fused["fusion"] == missed["fusion"] == "rms_norm" and fused["count"] == missed["count"] == 1
    assert (
        fused["reason"] == "" and missed["reason"] == "the mean is over the axes [0], not over the last one"
    )
    ((place, count),) = fused["places"].items()
    assert count == 1 and "cli_models.py" in place and "one = x * torch.rsqrt" in place


def test_check_of_another_models_weights_fails(run: Run, program: str) -> None:
    args = ("check", "cli_models:other", "--program", program, "-i", "x=float32[batch=2,4]")
    result = run(*args)
    assert result.code == FAILED and "DIFFER" in result.out and "differs" in result.out
    report = run(*args, "--json")
    assert report.code == FAILED and not report.json["ok"]
    assert run("check", "cli_models:Net", *args[2:]).code == FINE
    assert run(*args, "--tolerance", "1e9").code == FINE


def test_check_of_a_program_with_other_outputs_is_an_error(run: Run, program: str, folder: Path) -> None:
    linear = torch.nn.Linear(4, 3)
    torch.export.save(torch.export.export(linear, (), {"input": torch.ones(2, 4)}), folder / "one.pt2")
    result = run("check", "one.pt2", "--program", program)
    assert result.code == USAGE and "Traceback" not in result.err


# ops


def test_ops_lists_all(run: Run) -> None:
    assert run("ops").out.split() == sorted(mlxify.supported_ops())
    assert run("ops", "--json").json == sorted(mlxify.supported_ops())


def test_ops_of_a_model(run: Run) -> None:
    result = run("ops", "cli_models:Net", "-i", "x=float32[2,4]")
    assert result.code == FINE, result.err
    assert "aten.linear.default" in result.out and "aten.add.Tensor" in result.out


@pytest.mark.parametrize("model", ["cli_models:Unsupported", "cli_models:Branches"])
def test_ops_that_do_not_convert(run: Run, model: str) -> None:
    inputs = ["-i", "x=float32[3]", *(["-i", "which=bool[]"] if "Branches" in model else [])]
    result = run("ops", model, *inputs, "--json")
    assert result.code == UNSUPPORTED, result.err
    assert not result.json["supported"]
    missing = [row for row in result.json["ops"] if not row["supported"]]
    assert [row["target"] for row in missing] == ["acme.window.default"]
    assert missing[0]["calls"] == 1 and missing[0]["reason"]
    assert result.json["ops"][0] == missing[0]  # unsupported ones first


# Hugging Face folders


@pytest.fixture(scope="module")
def hf(folder: Path) -> Path:
    transformers = pytest.importorskip("transformers")
    small = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    torch.manual_seed(0)
    bert = transformers.BertConfig(**small, vocab_size=100, max_position_embeddings=64)
    transformers.BertModel(bert).save_pretrained(folder / "bert")
    vit = transformers.ViTConfig(**small, image_size=16, patch_size=8)
    transformers.ViTForImageClassification(vit).save_pretrained(folder / "vit")
    return folder


def test_hf_text_model(run: Run, hf: Path) -> None:
    result = run("convert", "hf:./bert", "-o", "bert.safetensors")
    assert result.code == FINE, result.err
    program = mlxify.load(hf / "bert.safetensors")
    for batch, length in ((1, 1), (1, 5), (3, 64)):
        ids = mx.ones((batch, length), dtype=mx.int64)
        assert program(input_ids=ids, attention_mask=ids).last_hidden_state.shape == (batch, length, 32)
    assert run("check", "hf:./bert", "--program", "bert.safetensors", "--layers").code == FINE


def test_hf_image_model(run: Run, hf: Path) -> None:
    result = run("convert", "hf:./vit", "-o", "vit.safetensors")
    assert result.code == FINE, result.err
    program = mlxify.load(hf / "vit.safetensors")
    assert program(mx.zeros((1, 3, 16, 16))).logits.shape == (1, 2)
    assert run("check", "hf:./vit", "--program", "vit.safetensors").code == FINE


def test_hf_folder_that_is_none(run: Run, folder: Path) -> None:
    pytest.importorskip("transformers")
    (folder / "empty").mkdir()
    result = run("ops", "hf:./empty")
    assert result.code == USAGE and "transformers cannot load" in result.err


# As a process of its own


def process(folder: Path, *args: str, before: str = "") -> subprocess.CompletedProcess[str]:
    code = f"import sys; {before}; sys.argv = ['mlxify', *sys.argv[1:]]; from mlxify.cli import main; main()"
    command = [sys.executable, "-c", code, *args]
    return in_folder(command, folder)


def in_folder(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(Path(mlxify.__file__).parent.parent)}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=folder, env=environment)


NO_TORCH = "sys.modules['torch'] = None"


@pytest.mark.parametrize("args", [["run"], ["run", "--json"], ["inspect"], ["inspect", "--json"]])
def test_run_and_inspect_need_no_torch(program: str, folder: Path, args: list[str]) -> None:
    result = process(folder, args[0], program, *args[1:], before=NO_TORCH)
    assert result.returncode == FINE, result.stderr


@pytest.mark.parametrize("command", ["convert", "check", "ops"])
def test_without_torch_the_others_say_what_to_install(folder: Path, command: str) -> None:
    output = ["-o", "a.safetensors"] if command == "convert" else []
    result = process(folder, command, "cli_models:Net", *output, before=NO_TORCH)
    assert result.returncode == USAGE and 'pip install "mlxify[torch]"' in result.stderr


@pytest.mark.parametrize("package", ["typer", "rich"])
def test_without_the_extra_it_says_what_to_install(folder: Path, package: str) -> None:
    result = process(folder, "ops", before=f"sys.modules[{package!r}] = None")
    assert result.returncode == USAGE and 'pip install "mlxify[cli]"' in result.stderr


def test_without_an_mlx_backend_it_says_what_to_install(folder: Path) -> None:
    result = process(folder, "inspect", "net.safetensors", before="sys.modules['mlx.core'] = None")
    assert result.returncode == USAGE and 'pip install "mlxify[cpu]"' in result.stderr


def test_hf_models_without_transformers_say_what_to_install(folder: Path) -> None:
    result = process(folder, "ops", "hf:./bert", before="sys.modules['transformers'] = None")
    assert result.returncode == USAGE and 'pip install "mlxify[llm]"' in result.stderr


def test_python_dash_m(program: str, folder: Path) -> None:
    command = [sys.executable, "-m", "mlxify", "inspect", program]
    result = in_folder(command, folder)
    assert result.returncode == FINE and "forward(" in result.stdout
