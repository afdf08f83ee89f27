// SPDX-License-Identifier: Apache-2.0
// `flashinfer download-cubin`: fetches packs, and installs what verifies.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "fetch.h"
#include "flashinfer/error.h"
#include "flashinfer/pack.h"
#include "kernel_commands.h"
#include "sha256.h"
#include "terminal.h"

namespace flashinfer::cli {
namespace {

namespace fs = std::filesystem;

/// A line of manifest.txt.
struct Item {
  std::string sha256;
  std::string name;
};

/// Lines of SHA-256, two spaces, file name, as sha256sum writes and checks them.
std::vector<Item> ReadManifest(const std::string& path, const std::string& url) {
  std::ifstream file(path);
  std::vector<Item> items;
  for (std::string line; std::getline(file, line);) {
    if (line.empty()) continue;
    const size_t space = line.find(' ');
    const size_t name = line.find_first_not_of(" *", space);
    const bool is_good = space == 64 && name != std::string::npos &&
                         line.find_first_not_of("0123456789abcdef") == 64 &&
                         line.find('/', name) == std::string::npos && line[name] != '.';
    if (!is_good)
      throw Error(ErrorKind::kIo,
                  fmt::format("{}: '{}' is not a line of SHA-256 and file name", url, line));
    items.push_back({line.substr(0, 64), line.substr(name)});
  }
  return items;
}

bool IsWanted(const Item& item, const std::vector<std::string>& archs) {
  return archs.empty() || std::any_of(archs.begin(), archs.end(), [&](const std::string& arch) {
           return item.name.find(fmt::format("-sm{}.", arch)) != std::string::npos;
         });
}

/// Fetches an item beside where it will lie, checks it, and moves it there.
void Install(const std::string& url, const Item& item, const fs::path& folder,
             const DownloadOptions& options) {
  // The hash in the name: a part of another version is not continued.
  const fs::path part = folder / fmt::format("{}.{}.part", item.name, item.sha256.substr(0, 16));
  {
    ProgressBar bar(100);
    Fetch(fmt::format("{}/{}", url, item.name), part.string(),
          {.timeout_seconds = options.timeout_seconds,
           .on_progress = [&](int64_t done, int64_t total) {
             bar.Show(total == 0 ? 0 : 100 * done / total,
                      fmt::format("{} {:.1f} MB", item.name, static_cast<double>(done) / 1e6));
           }});
  }
  const std::string sha256 = Sha256OfFile(part.string());
  if (sha256 != item.sha256) {
    fs::remove(part);
    throw Error(ErrorKind::kIo,
                fmt::format("{}/{}: SHA-256 is {}, the manifest says {}; not installed", url,
                            item.name, sha256, item.sha256));
  }
  VerifyPack(part.string());
  fs::rename(part, folder / item.name);
}

}  // namespace

int DownloadKernels(const KernelOptions& options) {
  const DownloadOptions& o = options.download;
  std::string url = o.url.empty() ? PackRepository() : o.url;
  if (url.empty()) {
    throw Error(ErrorKind::kInvalidArgument,
                "url: is not given, expected --url or FLASHINFER_CUBINS_REPOSITORY");
  }
  while (url.ends_with('/')) url.pop_back();
  CatchInterrupt();
  const fs::path folder = InstalledPackFolder();
  if (folder.empty()) throw Error(ErrorKind::kIo, "cache folder: there is none to install to");
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw Error(ErrorKind::kIo, fmt::format("{}: {}", folder.string(), error.message()));
  const std::string manifest = (folder / "manifest.txt.part").string();
  fs::remove(manifest);
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  try {
    Fetch(url + "/manifest.txt", manifest,
          {.timeout_seconds = o.timeout_seconds, .on_progress = {}});
    const std::vector<Item> items = ReadManifest(manifest, url + "/manifest.txt");
    fs::remove(manifest);
    for (const Item& item : items) {
      if (!IsWanted(item, o.archs)) continue;
      const fs::path path = folder / item.name;
      const bool is_there = fs::exists(path) && Sha256OfFile(path.string()) == item.sha256;
      if (!is_there) Install(url, item, folder, o);
      all.push_back({{"path", path.string()}, {"downloaded", !is_there}});
      if (!options.json) {
        fmt::print("{} {}\n", is_there ? "already there:" : "installed", path.string());
      }
    }
  } catch (const Error&) {
    fs::remove(manifest, error);
    if (Interrupted()) return kExitInterrupted;
    throw;
  }
  if (all.empty()) {
    throw Error(ErrorKind::kIo, fmt::format("{}/manifest.txt: lists no pack for sm_{}", url,
                                            fmt::join(o.archs, ", sm_")));
  }
  if (options.json) fmt::print("{}\n", all.dump(2));
  return 0;
}

}  // namespace flashinfer::cli
