# Compiles kernel sources once per CPU instruction set, each in the namespace that FLASHINFER_ISA
# names (src/backends/cpu/isa.h). Other architectures compile the plain path under all four names.
include(CheckCXXCompilerFlag)

set(FLASHINFER_ISAS scalar avx2 avx512 avx512_bf16)
set(flags_scalar "")
set(flags_avx2 -mavx2 -mfma -mf16c -mbmi2)
set(flags_avx512 ${flags_avx2} -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512cd)
set(flags_avx512_bf16 ${flags_avx512} -mavx512vnni -mavx512bf16)
# clang 16 stops on the bf16 dot product; its builds (sanitizers, fuzzers) multiply floats instead.
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 17)
  list(REMOVE_ITEM flags_avx512_bf16 -mavx512bf16)
endif()

# AMX adds to the best set, for linear layers alone: src/backends/cpu/linear_amx.cc.
check_cxx_compiler_flag("-mamx-tile -mamx-bf16" FLASHINFER_HAS_AMX_FLAGS)
set(flags_amx_bf16 ${flags_avx512_bf16})
if(FLASHINFER_HAS_AMX_FLAGS)
  list(APPEND flags_amx_bf16 -mamx-tile -mamx-bf16)
endif()

# flashinfer_isa_objects(LIBRARY ISA SOURCE ...): objects of one instruction set.
function(flashinfer_isa_objects library isa)
  add_library(${library} OBJECT ${ARGN})
  target_include_directories(${library} PRIVATE ${PROJECT_SOURCE_DIR}/src
                                                ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(${library} PRIVATE fmt::fmt-header-only)
  # Always optimised: an unoptimised kernel is of no use to anybody, and inline functions that
  # stay calls could be taken from the wrong instruction set's unit.
  target_compile_options(${library} PRIVATE -O3 -fno-math-errno
    # GCC 12 calls its own intrinsics' undefined vectors uninitialised.
    $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized -Wno-uninitialized>)
  if(FLASHINFER_SANITIZE)  # of the host logic; kernels would take minutes a file to compile
    target_compile_options(${library} PRIVATE -fno-sanitize=all)
  endif()
  target_compile_definitions(${library} PRIVATE FLASHINFER_ISA=${isa})
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    target_compile_options(${library} PRIVATE ${flags_${isa}})
  endif()
endfunction()

function(flashinfer_simd_sources target)
  foreach(isa IN LISTS FLASHINFER_ISAS)
    flashinfer_isa_objects(${target}_${isa} ${isa} ${ARGN})
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:${target}_${isa}>)
  endforeach()
endfunction()
