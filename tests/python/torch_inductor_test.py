# SPDX-License-Identifier: Apache-2.0
"""What torch.compile makes by default, with a C++ compiler, gives what eager calls give."""
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: tools/setup --dev installs it")

import flashinfer  # noqa: E402
from flashinfer import sampling  # noqa: E402


def test_inductor():
    torch.manual_seed(1)

    def function(x, weight):
        y = flashinfer.rmsnorm(x + 1, weight) * 2
        return y, sampling.top_k_top_p_sampling_from_logits(y, 9, 0.7, seed=3)

    x, weight = torch.randn(4, 64), torch.randn(64)
    try:
        actual = torch.compile(function, fullgraph=True)(x, weight)
    except torch._inductor.exc.InductorError as error:
        if "compiler" not in str(error):
            raise
        pytest.skip("inductor needs a C++ compiler")
    expected = function(x, weight)
    torch.testing.assert_close(actual[0], expected[0])
    assert torch.equal(actual[1], expected[1])
