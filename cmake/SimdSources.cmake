# Compiles kernel sources once per CPU instruction set, each in the namespace that FLASHINFER_ISA
# names (src/backends/cpu/isa.h). Other architectures compile the plain path under all four names.
set(FLASHINFER_ISAS scalar avx2 avx512 avx512_bf16)
set(flags_scalar "")
set(flags_avx2 -mavx2 -mfma -mf16c -mbmi2)
set(flags_avx512 ${flags_avx2} -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512cd)
set(flags_avx512_bf16 ${flags_avx512} -mavx512vnni -mavx512bf16)
# clang 16 stops on the bf16 dot product; its builds (sanitizers, fuzzers) multiply floats instead.
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 17)
  list(REMOVE_ITEM flags_avx512_bf16 -mavx512bf16)
endif()

function(flashinfer_simd_sources target)
  foreach(isa IN LISTS FLASHINFER_ISAS)
    add_library(${target}_${isa} OBJECT ${ARGN})
    target_include_directories(${target}_${isa} PRIVATE ${PROJECT_SOURCE_DIR}/src
                                                        ${PROJECT_SOURCE_DIR}/include)
    target_link_libraries(${target}_${isa} PRIVATE fmt::fmt-header-only)
    # Always optimised: an unoptimised kernel is of no use to anybody, and inline functions that
    # stay calls could be taken from the wrong instruction set's unit.
    target_compile_options(${target}_${isa} PRIVATE -O3 -fno-math-errno
      # GCC 12 calls its own intrinsics' undefined vectors uninitialised.
      $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized -Wno-uninitialized>)
    if(FLASHINFER_SANITIZE)  # of the host logic; kernels would take minutes a file to compile
      target_compile_options(${target}_${isa} PRIVATE -fno-sanitize=all)
    endif()
    target_compile_definitions(${target}_${isa} PRIVATE FLASHINFER_ISA=${isa})
    if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
      target_compile_options(${target}_${isa} PRIVATE ${flags_${isa}})
    endif()
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:${target}_${isa}>)
  endforeach()
endfunction()
