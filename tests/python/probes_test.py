# SPDX-License-Identifier: Apache-2.0
"""flashinfer.utils, tllm_enums, jit: small functions, decorators, what stands for modules."""
import numpy as np
import pytest

import flashinfer
from flashinfer import jit, tllm_enums, utils


def test_numbers():
    assert [utils.ceil_div(x, 4) for x in (0, 1, 4, 5)] == [0, 1, 1, 2]
    assert [utils.round_up(x, 4) for x in (0, 1, 4, 5)] == [0, 4, 4, 8]
    assert [utils.next_positive_power_of_2(x) for x in (0, 1, 2, 3, 9)] == [1, 1, 2, 4, 16]
    assert [utils.last_positive_power_of_2(x) for x in (1, 2, 3, 9)] == [1, 2, 2, 8]
    assert utils.version_at_least("13.0", "12.8") and utils.version_at_least("2.11.0+cu130", "2.11")
    assert not utils.version_at_least("2.4", "2.11")


def test_values_of_enumerations():
    assert [m.value for m in utils.MaskMode] == [0, 1, 2, 3]
    assert utils.PosEncodingMode["ALIBI"].value == 2 and utils.TensorLayout["HND"].value == 1
    assert tllm_enums.ActivationType.GegluTanh.value == 8
    gated = [a for a in tllm_enums.ActivationType if a.is_gated]
    assert [a.value for a in gated] == [3, 4, 5, 7, 8, 10]
    assert tllm_enums.is_gated_activation(3) and not tllm_enums.is_gated_activation(0)
    assert flashinfer.SfLayout.layout_linear.value == 2


def test_errors_are_of_the_kinds_that_engines_catch():
    assert issubclass(utils.GPUArchitectureError, RuntimeError)
    assert issubclass(utils.BackendSupportedError, NotImplementedError)
    assert issubclass(utils.LibraryError, RuntimeError)
    error = jit.MissingJITCacheError("no kernel", spec=jit.gen_norm_module())
    assert isinstance(error, RuntimeError) and error.spec.name == "norm"


def test_alibi_slopes():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    slopes = utils.get_alibi_slopes(12)
    expected = [2.0 ** -i for i in range(1, 9)] + [2.0 ** -(i + 0.5) for i in range(4)]
    torch.testing.assert_close(slopes, torch.tensor(expected))


def test_devices_that_are_no_gpu():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    with pytest.raises(ValueError, match="must be a cuda device"):
        utils.get_compute_capability(torch.device("cpu"))
    assert not utils.device_support_pdl(torch.device("cpu"))
    assert utils.has_flashinfer_jit_cache()


def test_unpack_paged_kv_cache(tensors):
    cache = tensors.make(np.arange(2 * 2 * 3 * 4 * 5).reshape(2, 2, 3, 4, 5), "float32")
    keys, values = utils._unpack_paged_kv_cache(cache, "NHD")
    assert tuple(keys.shape) == tuple(values.shape) == (2, 3, 4, 5)
    np.testing.assert_array_equal(tensors.read(values), tensors.read(cache)[:, 1])
    for layout, shape in (("NHD", (2, 1, 4, 5)), ("HND", (2, 4, 1, 5))):
        assert tuple(utils._unpack_paged_kv_cache(cache[:, :, 0], layout)[0].shape) == shape
    with pytest.raises(KeyError, match="accepted: a tensor, a pair"):
        utils._unpack_paged_kv_cache(3, "NHD")


def test_supported_compute_capability():
    @utils.supported_compute_capability([80, 90])
    def check(x):
        return True

    assert check.is_compute_capability_supported(90)
    assert not check.is_compute_capability_supported(75)
    for wrong, words in ((80, "must be an iterable"), (["80"], "must be an integer"),
                         ([True], "got bool")):
        with pytest.raises(TypeError, match=words):
            utils.supported_compute_capability(wrong)


def requirement(**options):
    @utils.supported_compute_capability([80, 90])
    def small(x, backend="auto"):
        return x < 10

    @utils.supported_compute_capability([90])
    def large(x, backend="auto"):
        return x < 100

    @utils.backend_requirement({"a": small, "b": large}, **options)
    def operator(x, backend="auto"):
        """Doubles."""
        return 2 * x, getattr(operator, "suitable_auto_backends", None)

    return operator


def test_backend_requirement(monkeypatch):
    monkeypatch.setattr("flashinfer._backend_requirement._capability_of", lambda arguments: 90)
    operator = requirement(heuristic_func=lambda suitable, x, backend: suitable[::-1])
    assert operator.__doc__ == "Doubles." and operator.has_backend("a")
    assert operator.is_backend_supported("a", 80) and not operator.is_backend_supported("b", 80)
    assert not operator.is_backend_supported("c")
    assert operator.is_compute_capability_supported(80)
    assert not operator.is_compute_capability_supported(75)
    assert operator(3) == (6, ["b", "a"]) and operator(30) == (60, ["b"])
    assert operator(30, backend="b")[0] == 60 and operator(300, skip_check=True)[0] == 600
    with pytest.raises(ValueError, match="Problem size is not supported"):
        operator(30, backend="a")
    with pytest.raises(utils.BackendSupportedError, match="does not support backend 'c'"):
        operator(3, backend="c")
    with pytest.raises(utils.BackendSupportedError, match="No suitable auto backends"):
        operator(300)


def test_names_of_modules():
    spec = jit.gen_batch_decode_module("float16", "float8_e4m3fn", "bfloat16", "int32", 128, 128, 0,
                                       False, True)
    assert spec.name == ("batch_decode_with_kv_cache_dtype_q_f16_dtype_kv_e4m3_dtype_o_bf16_"
                         "dtype_idx_i32_head_dim_qk_128_head_dim_vo_128_posenc_0_use_swa_False_"
                         "use_logits_cap_True")
    assert spec.build_and_load().version() == flashinfer.__version__
    assert jit.jit_spec_registry.get_spec_status(spec.name).status == "Compiled"
    assert jit.gen_single_prefill_module("fa3", *["float16"] * 3, 64, 64, 0, False, False,
                                         False).name.endswith("_f16qk_False_sm90")
    with pytest.raises(TypeError, match="dtype_o"):
        jit.gen_single_decode_module("float16", "float16")
    with pytest.raises(KeyError, match="accepted: silu"):
        flashinfer.activation.gen_act_and_mul_module("relu")


def test_variants():
    """cuda_test.py runs them; the CPU backend has no compiler for their code."""
    import numpy as np

    mine = [[], [], ["scale"], ["double"], "Mine", "struct Mine {};"]
    module = jit.gen_customize_single_prefill_module(
        "fa2", "mine", "float16", "float16", "float16", 64, 64, *mine).build_and_load()
    q, k = np.zeros((2, 4, 64), np.float16), np.zeros((5, 2, 64), np.float16)
    run = flashinfer.prefill.single_prefill_with_kv_cache_with_jit_module
    with pytest.raises(NotImplementedError, match="a variant is code for CUDA devices"):
        run(module, q, k, k, 0.5)
    for args, words in (((), "got 0 arguments for Mine, expected 1: scale"),
                        ((0.5, 1.0), "got 2 arguments"), (("x",), "scale: is 'x'")):
        with pytest.raises(ValueError, match=words):
            run(module, q, k, k, *args)
    with pytest.raises(NotImplementedError, match="mask_mode: is MaskMode.MULTI"):
        run(module, q, k, k, 0.5, mask_mode=flashinfer.utils.MaskMode.MULTIITEMSCORING)
    with pytest.raises(TypeError, match="jit_module"):
        run(jit.gen_page_module().build_and_load(), q, k, k)
    wrapper = flashinfer.BatchPrefillWithRaggedKVCacheWrapper(
        np.zeros(1 << 20, np.uint8),
        jit_args=["mine", "float16", "float16", "float16", "int32", 64, 64, *mine])
    with pytest.raises(NotImplementedError, match="a variant is code for CUDA devices"):
        wrapper.plan(np.int32([0, 2]), np.int32([0, 5]), 4, 2, 64)
    with pytest.raises(ValueError, match="jit_kwargs"):
        flashinfer.BatchPrefillWithRaggedKVCacheWrapper(
            np.zeros(1 << 20, np.uint8), jit_kwargs={"use_sliding_window": True})
    pod = jit.gen_customize_pod_module(
        "pod", "float16", "float16", "float16", "int32", 64, [], [], [], [], "Mine", "Mine",
        "struct Mine {};")
    with pytest.raises(NotImplementedError, match="pod: variants are not there"):
        pod.build_and_load()


def test_importing_makes_no_folder(tmp_path, monkeypatch):
    import importlib

    monkeypatch.setenv("FLASHINFER_CACHE_DIR", str(tmp_path / "cache"))
    env = importlib.reload(jit.env)
    assert env.FLASHINFER_JIT_DIR.parent == tmp_path / "cache"
    assert not (tmp_path / "cache").exists()
    monkeypatch.undo()
    importlib.reload(jit.env)
