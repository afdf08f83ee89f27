// SPDX-License-Identifier: Apache-2.0
// Quantisation of blocks and back against float64 loops.
#include "support/checks/quantize_blocks.h"

#include <set>

#include "support/mismatch.h"
#include "support/narrow_values.h"

namespace flashinfer::test {
namespace {

void ExpectScaleIsRight(const BlockTensors& t, int64_t row, int64_t block, double global_scale,
                        Trial& trial) {
  const double amax = t.Amax(row, block);
  const double scale = t.ScaleAt(row, block);
  if (t.c.format == BlockFormat::kNvFp4) {
    trial.ExpectTrue("the scale is the nearest",
                     NarrowValues(DType::kE4M3).IsNearest(scale, global_scale * amax / 6));
    return;
  }
  // The smallest power of two that saturates nothing.
  const double largest = NarrowValues(QTypeOf(t.c.format)).largest();
  trial.ExpectTrue("the scale saturates nothing", amax <= scale * largest);
  trial.ExpectTrue("the scale is the smallest", scale == 0x1p-127 || amax > scale / 2 * largest);
}

void ExpectCodesAreNearest(const BlockTensors& t, double global_scale, Trial& trial) {
  const NarrowValues values(QTypeOf(t.c.format));
  for (int64_t row = 0; row < t.c.num_rows; ++row) {
    for (int64_t block = 0; block < t.NumBlocks(); ++block) {
      ExpectScaleIsRight(t, row, block, global_scale, trial);
      const double scale = t.ScaleAt(row, block) / global_scale;
      for (int64_t i = block * t.BlockSize(); i < (block + 1) * t.BlockSize(); ++i) {
        const double value = i < t.c.hidden_size ? t.x.At({row, i}) : 0;
        const double exact = scale == 0 ? 0 : value / scale;
        if (values.IsNearest(t.QAt(row, i), exact)) continue;
        trial.ExpectEqual("q", {row, i}, t.QAt(row, i), exact);
      }
    }
  }
}

void ExpectPaddingIsZero(const BlockTensors& t, Trial& trial) {
  std::set<int64_t> used;
  for (int64_t row = 0; row < t.c.num_rows; ++row) {
    for (int64_t block = 0; block < t.NumBlocks(); ++block) used.insert(t.OffsetOf(row, block));
  }
  trial.ExpectEqual("places of scales", {}, static_cast<double>(used.size()),
                    static_cast<double>(t.c.num_rows * t.NumBlocks()));
  const auto* bytes = t.scales.view().data_as<const uint8_t>();
  for (int64_t i = 0; i < t.scales.view().shape(0); ++i) {
    if (!used.contains(i)) trial.ExpectEqual("padding of scales", {i}, bytes[i], 0);
  }
  trial.ExpectTrue("padding of q is untouched", PaddingIsUntouched(t.q));
  trial.ExpectTrue("padding of scales is untouched", PaddingIsUntouched(t.scales));
}

}  // namespace

void CheckQuantizeBlocks(const QuantizeBlocksCase& c, CaseRun& run) {
  std::mt19937_64 rng(23);
  constexpr double kGlobalScale = 384;
  HostTensor global_scale(DType::kF32, {1});
  global_scale.Fill(kGlobalScale);
  const double global = c.format == BlockFormat::kNvFp4 ? kGlobalScale : 1;
  bool scale_from_tensor = false;
  run.ForEachCandidate<QuantizeBlocksOp>(ProblemOf(c), c, [&](Trial& trial) {
    DeviceCopies on(trial.device());
    BlockTensors t(c);
    t.x.FillNormal(rng, 2.0);
    HostTensor back(c.dtype, {c.num_rows, c.hidden_size}, {c.hidden_size + 1, 1});
    QuantizeBlocksOptions options{.scale_layout = c.scale_layout,
                                  .global_scale = static_cast<float>(kGlobalScale),
                                  .backend = trial.backend()};
    if (scale_from_tensor) {
      options.global_scale = 7;  // not to be read
      options.global_scale_tensor = on(global_scale);
    }
    scale_from_tensor = !scale_from_tensor;
    QuantizeBlocks(on(t.x), on(t.q), on(t.scales), options);
    DequantizeBlocks(on(t.q), on(t.scales), on(back), options);
    on.Fetch();
    ExpectCodesAreNearest(t, global, trial);
    ExpectPaddingIsZero(t, trial);
    std::vector<double> expected;
    for (int64_t row = 0; row < c.num_rows; ++row) {
      for (int64_t i = 0; i < c.hidden_size; ++i) {
        expected.push_back(t.QAt(row, i) * t.ScaleAt(row, i / t.BlockSize()) / global);
      }
    }
    trial.Expect("back", Mismatch(back, expected, ToleranceOf(c.dtype)));
  });
}

}  // namespace flashinfer::test
