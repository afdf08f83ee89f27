// SPDX-License-Identifier: Apache-2.0
// One compilation a kernel and process, and the loaded kernels.
#include "jit/store.h"

#include <chrono>
#include <future>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/check.h"
#include "core/env.h"
#include "core/log.h"
#include "core/text.h"
#include "flashinfer/jit.h"
#include "jit/cache_folder.h"
#include "jit/nvrtc.h"
#include "jit/pack_search.h"

namespace flashinfer::jit {
namespace {

using BinaryPointer = std::shared_ptr<const Binary>;

struct Made {
  BinaryPointer binary;
  Origin origin;
};

struct State {
  std::mutex mutex;
  std::unordered_map<std::string, std::shared_future<Made>> by_digest;
  std::map<std::pair<std::string, const cuda::DeviceProperties*>, std::shared_future<cuda::Kernel>>
      loaded;
  std::atomic<int64_t> num_fetches{0};
};

State& GetState() {
  static State& state = *new State;
  return state;
}

std::string MissingText(const Unit& unit, Target target, const std::string& why) {
  std::vector<std::string> packs;
  for (const std::shared_ptr<const Pack>& pack : Packs(target)) packs.push_back(pack->path());
  return fmt::format(
      "{} for sm_{} cannot be compiled ({}), and it is neither in the cache {} nor in a pack ({}); "
      "to build it: flashinfer compile --cached '{}' --arch {}",
      unit.spec, Name(target), why, KernelCache().folder(),
      packs.empty() ? fmt::format("there is none for sm_{}", Name(target)) : Join(packs), unit.spec,
      Name(target));
}

BinaryPointer CompileAndSave(const Unit& unit, Target target, const std::string& digest,
                             const DiskCache& cache) {
  try {
    Compilation compilation = Compile(unit, target);
    if (GetEnv().jit_verbose) {
      LogLine(fmt::format("compiled {} for sm_{} in {:.3f} s", unit.spec, Name(target),
                          compilation.seconds));
    }
    cache.Save(digest, target, unit.spec, compilation.binary);
    return std::make_shared<const Binary>(std::move(compilation.binary));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kCompile) throw;
    const std::string path = cache.LeaveSource(digest, unit.source);
    throw Error(error.kind(), path.empty()
                                  ? error.what()
                                  : fmt::format("{}\nthe unit was left in {}", error.what(), path));
  }
}

/// Looks everywhere but in memory.
Made Make(const Unit& unit, Target target, const std::string& digest) {
  if (std::optional<Binary> binary = FindInPacks(digest, target)) {
    return {std::make_shared<const Binary>(std::move(*binary)), Origin::kPack};
  }
  const DiskCache cache = KernelCache();
  std::string why;
  const NvrtcInfo* nvrtc = FindNvrtc(&why);
  if (GetEnv().disable_jit) why = "FLASHINFER_DISABLE_JIT is set";
  const bool can_compile = nvrtc != nullptr && !GetEnv().disable_jit;
  const std::string compiler = can_compile ? nvrtc->Name() : "";
  const auto load = [&]() -> BinaryPointer {
    std::optional<Binary> binary = cache.Load(digest, target, compiler);
    return binary ? std::make_shared<const Binary>(std::move(*binary)) : nullptr;
  };
  if (BinaryPointer binary = load()) return {binary, Origin::kDisk};
  if (!can_compile) throw MissingKernelError(MissingText(unit, target, why));
  const CompileLock lock(cache.folder(), digest);
  if (BinaryPointer binary = load()) return {binary, Origin::kDisk};
  return {CompileAndSave(unit, target, digest, cache), Origin::kCompiled};
}

/// The value of `key`, made by the first caller while others wait. What threw is forgotten, so that
/// a later call tries again.
template <class Map, class Key, class Make>
auto MakeOnce(Map& map, const Key& key, const Make& make, bool& is_first) {
  State& state = GetState();
  using Value = std::invoke_result_t<Make>;
  std::promise<Value> promise;
  std::shared_future<Value> future;
  {
    const std::lock_guard lock(state.mutex);
    auto [at, is_inserted] = map.try_emplace(key);
    is_first = is_inserted;
    if (is_inserted) at->second = promise.get_future().share();
    future = at->second;
  }
  if (is_first) {
    try {
      promise.set_value(make());
    } catch (...) {
      promise.set_exception(std::current_exception());
      const std::lock_guard lock(state.mutex);
      map.erase(key);
    }
  }
  return future;
}

/// With the code of the older architecture that the device is taken for.
Unit UnitFor(Unit unit, const cuda::DeviceProperties& device) {
  if (device.arch != device.code_arch) {
    unit.source.insert(0, fmt::format("#define FLASHINFER_ARCH {}\n", device.arch * 10));
  }
  return unit;
}

}  // namespace

std::string_view Name(Origin origin) {
  constexpr std::array<std::string_view, 4> kNames{"memory", "pack", "disk", "compiled"};
  return kNames.at(static_cast<size_t>(origin));
}

DiskCache KernelCache() { return DiskCache(KernelCacheFolder()); }

Fetched Fetch(const Unit& unit, Target target) {
  const auto start = std::chrono::steady_clock::now();
  State& state = GetState();
  state.num_fetches.fetch_add(1, std::memory_order_relaxed);
  const std::string digest = Digest(unit, target);
  bool is_first = false;
  const Made made =
      MakeOnce(
          state.by_digest, digest, [&] { return Make(unit, target, digest); }, is_first)
          .get();
  return {
      .binary = made.binary,
      .origin = is_first ? made.origin : Origin::kMemory,
      .seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()};
}

const cuda::Kernel& Load(const Unit& unit, const cuda::DeviceProperties& device) {
  const auto load = [&] {
    const Fetched fetched = Fetch(UnitFor(unit, device), TargetFor(device.code_arch));
    return cuda::LoadKernel(fetched.binary->cubin, unit.spec, unit.num_threads, unit.smem_bytes,
                            device);
  };
  bool is_first = false;
  // The map keeps the shared state, and with it the kernel, for good.
  return MakeOnce(GetState().loaded, std::pair(unit.spec, &device), load, is_first).get();
}

int64_t NumFetches() { return GetState().num_fetches.load(std::memory_order_relaxed); }

}  // namespace flashinfer::jit
