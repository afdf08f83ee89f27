// SPDX-License-Identifier: Apache-2.0
// What stands under "Examples" in the help of each command.
#pragma once

#include <array>
#include <string_view>

namespace flashinfer::cli {

struct HelpExamples {
  std::string_view command;  ///< without the program's name
  std::string_view lines;    ///< what follows the program's name, one call a line
};

constexpr std::array kHelpExamples{
    HelpExamples{"generate",
                 "generate --model model.gguf --prompt 'What is a page table?'\n"
                 "generate --model model.gguf --temperature 0.7 --top-p 0.9 --seed 3   # a chat"},
    HelpExamples{"score", "score --model model.gguf book.txt --json"},
    HelpExamples{"tokenize", "tokenize --model model.gguf --text 'Hello world'"},
    HelpExamples{"replay-trace",
                 "replay-trace --model model.gguf trace.jsonl --requests 100 --time-scale 0.5\n"
                 "replay-trace --model model.gguf --json   # a synthetic trace"},
    HelpExamples{"explain",
                 "explain 'norm dtype=bf16 arch=90'\n"
                 "explain 'norm dtype=bf16 arch=90' --json\n"
                 "explain --matrix"},
    HelpExamples{"replay", "replay --dir dumped-calls"},
    HelpExamples{"compile",
                 "compile 'norm.simt dtype=f16' --arch 80,90a\n"
                 "compile norm.simt --show\n"
                 "compile prefill.mma --variant examples/variants/sigmoid.cu"},
    HelpExamples{"pack",
                 "pack build --arch 80,90a --recipe packs/llama3.txt -o packs\n"
                 "pack list packs/flashinfer-sm90a.pack"},
    HelpExamples{"pack build",
                 "pack build --arch 75,80,86,89,90a,100a,103a,110a,120a,121a --recipe "
                 "packs/llama3.txt -o packs"},
    HelpExamples{"pack list", "pack list packs/flashinfer-sm90a.pack"},
    HelpExamples{"pack verify",
                 "pack verify packs/flashinfer-sm80.pack packs/flashinfer-sm90a.pack"},
    HelpExamples{"pack install", "pack install packs/flashinfer-sm90a.pack"},
    HelpExamples{"list-modules",
                 "list-modules\n"
                 "list-modules norm.simt --json"},
    HelpExamples{"module-status", "module-status --filter compiled"},
    HelpExamples{"download-cubin", "download-cubin --url https://example.org/packs --arch 90a"},
    HelpExamples{"download-kernels", "download-kernels --url https://example.org/packs --arch 90a"},
    HelpExamples{"install-cubin-wheel",
                 "install-cubin-wheel packs/flashinfer-sm90a.pack --python python3 --dry-run"},
    HelpExamples{"install-jit-cache-wheel",
                 "install-jit-cache-wheel packs/flashinfer-sm90a.pack --dry-run"},
    HelpExamples{"list-cubins", "list-cubins --json"},
    HelpExamples{"clear-cache", "clear-cache"},
    HelpExamples{"clear-cubin", "clear-cubin"},
    HelpExamples{"collect-env", "collect-env > report.txt"},
    HelpExamples{"export-compile-commands", "export-compile-commands build/compile_commands.json"},
    HelpExamples{"show-config", "show-config --json"}};

}  // namespace flashinfer::cli
