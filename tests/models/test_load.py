"""`nx.models.load` and `python -m namedax.models`: what is read, and what is an error before anything is read."""

import json
import re

import jax
import numpy as np
import pytest

import namedax as nx
from namedax.errors import AxisResourceError, CheckpointError, MeshError
from namedax.models import common, llama
from namedax.models.architectures import open_model
from namedax.models.command import main
from tests.models.loading import golden
from tests.models.test_models import model_of, params_of


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A published checkpoint of the tiny Llama."""
    path = tmp_path_factory.mktemp("llama")
    (path / "config.json").write_text(str(golden("llama3")["config"]))
    nx.interop.save_safetensors(params_of("llama3"), llama.spec(model_of("llama3")[1]), path / "model.safetensors")
    return path


@pytest.mark.fast(1)
@pytest.mark.parametrize(
    "layout", [None, {"embed_fsdp": "data", "batch": "data", "kv_heads": "model"}], ids=["whole", "sharded"]
)
def test_a_checkpoint_is_read_by_its_configuration(folder, layout):
    mesh = None if layout is None else jax.make_mesh((4, 2), ("data", "model"))
    model = nx.models.load(folder, layout, mesh)
    assert (model.architecture, model.module, model.config) == ("llama", llama, model_of("llama3")[1])
    for place, array in common.places(params_of("llama3")):
        assert bool(nx.all(dict(common.places(model.params))[place] == array, ...)), place
    assert "model.layers.{0-1}.mlp.up_proj.weight" in model.report
    assert "layers/up" in model.report
    assert "params" not in repr(model)
    query = model.params["layers"]["query"]
    assert query.sharding.is_fully_replicated == (layout is None)
    rows = nx.named(np.array(golden("llama3")["tokens"]), ["batch", "pos"])
    batch = {"tokens": rows, "targets": rows}
    own = nx.xmap(model.loss, axis_resources=layout or {}, mesh=mesh)(model.params, batch)
    wanted = nx.xmap(lambda params, batch: llama.loss(params, batch, model.config))(params_of("llama3"), batch)
    np.testing.assert_allclose(own, wanted, rtol=2e-5)
    dims = nx.xmap(lambda params, tokens: model.forward(params, tokens), out_axes=None)(model.params, rows).dims
    assert set(dims) == {"batch", "pos", "vocab"}


def test_a_folder_may_have_the_name_of_an_architecture(folder, tmp_path, monkeypatch):
    (tmp_path / "mixtral").symlink_to(folder)
    monkeypatch.chdir(tmp_path)
    for model in (nx.models.load("mixtral"), open_model("mixtral")):
        assert (model.architecture, model.config) == ("llama", model_of("llama3")[1])
    assert open_model("llama").config == llama.TINY


def test_parameters_have_the_dtype_that_is_asked_for(folder):
    assert nx.models.load(folder, dtype="bfloat16").params["norm"].dtype == jax.numpy.bfloat16


def test_mistakes_are_errors_before_anything_is_read(folder, tmp_path, monkeypatch):
    def fail(*args, **kwargs):
        raise AssertionError("a file was read")

    mesh = jax.make_mesh((4, 2), ("data", "model"))
    with monkeypatch.context() as patch:
        patch.setattr(nx.interop, "load_safetensors", fail)
        with pytest.raises(
            AxisResourceError,
            match=re.escape("axis_resources has the name 'kv_head', but llama has no such axis. Did you mean 'kv_heads'?"),
        ):
            nx.models.load(folder, {"kv_head": "model"}, mesh)
        for missing in (tmp_path, "llama"):  # also if it is the name of an architecture
            with pytest.raises(CheckpointError, match=r"there is no file .*config\.json"):
                nx.models.load(missing)
        entries = json.loads(str(golden("llama3")["config"]))
        for changed, text in (
            ({"model_type": "lama"}, r"model_type 'lama', which no model reads\. Did you mean 'llama'\?"),
            ({"new_entry": 1}, r"has entries that the model does not know: 'new_entry'"),
            ({"hidden_act": "relu"}, r"hidden_act='relu'; this model supports only 'silu'"),
        ):
            (tmp_path / "config.json").write_text(json.dumps(entries | changed))
            with pytest.raises(CheckpointError, match=text):
                nx.models.load(tmp_path)
    with pytest.raises(MeshError):
        nx.models.load(folder, {"kv_heads": "modle"}, mesh)


@pytest.mark.full(0)
@pytest.mark.fast(0)
@pytest.mark.parametrize(
    "layout",
    [["--layout", "batch+heads"], ["--layout", "{'batch': 'data', 'cache': 'model'}", "--mesh", "data=2,model=2"]],
    ids=["title", "dict"],
)
def test_a_checkpoint_continues_prompts(folder, layout, capsys):
    assert main(["generate", str(folder), "--new", "3", "--prompt", "ab", *layout]) == 0
    text = capsys.readouterr().out
    assert text.startswith("ab")
    assert " tokens/s under " in text
    assert main(["generate", str(folder), "--new", "3", *layout]) == 0
    assert capsys.readouterr().out.count("---") == 3


def test_the_command_explains_itself(capsys):
    assert main([]) == main(["--help"]) == 0
    assert capsys.readouterr().out.count("usage: python -m namedax.models COMMAND FOLDER") == 2
    for arguments, text in (
        (["generat", "llama"], "there is no command 'generat'"),
        (["generate", "nothing"], "there is no file nothing/config.json"),
        (["explain", "vit", "--layout", "fdsp"], "--layout 'fdsp' is neither a dict nor one of"),
        (
            ["explain", "vit", "--layout", "{'embd_fsdp': 'data'}"],
            "has the name 'embd_fsdp', but the model has no such axis. Did you mean",
        ),
        (["explain", "vit", "--layout", "{'batch': 'x', 'hidden': 'y'}"], "Pass them, such as --mesh x=2,y=2"),
        (["explain", "vit", "--layout", "{'batch'"], "models: --layout=\"{'batch'\" is not a layout"),
    ):
        assert main(arguments) == 2
        assert text in capsys.readouterr().err
