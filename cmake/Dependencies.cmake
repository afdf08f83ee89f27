# Every outside library, with the version that the project is built with. All are header-only or
# linked statically; Debian package names in comments.
find_package(Threads REQUIRED)
find_package(fmt 9.1 REQUIRED)             # libfmt-dev, used header-only
find_path(XXHASH_INCLUDE_DIR xxhash.h REQUIRED)  # libxxhash-dev 0.8, used header-only
add_library(xxhash INTERFACE IMPORTED)
target_include_directories(xxhash INTERFACE ${XXHASH_INCLUDE_DIR})

# flashinfer_static_library(NAME HEADER ARCHIVE): an archive whose symbols stay inside.
function(flashinfer_static_library name header archive)
  find_path(${name}_INCLUDE_DIR ${header} REQUIRED)
  find_library(${name}_ARCHIVE ${archive} REQUIRED)
  add_library(${name} STATIC IMPORTED GLOBAL)
  set_target_properties(${name} PROPERTIES IMPORTED_LOCATION ${${name}_ARCHIVE}
                                           INTERFACE_INCLUDE_DIRECTORIES ${${name}_INCLUDE_DIR}
                                           INTERFACE_LINK_OPTIONS LINKER:--exclude-libs,ALL)
endfunction()
flashinfer_static_library(zstd_static zstd.h libzstd.a)                     # libzstd-dev 1.5
flashinfer_static_library(mbedcrypto_static mbedtls/sha256.h libmbedcrypto.a)  # libmbedtls-dev 2.28

if(FLASHINFER_CLI)
  find_package(CLI11 2.1 REQUIRED)         # libcli11-dev
  find_package(nlohmann_json 3.11 REQUIRED)  # nlohmann-json3-dev
  find_path(UTF8PROC_INCLUDE_DIR utf8proc.h REQUIRED)  # libutf8proc-dev 2.8
  find_library(UTF8PROC_LIBRARY libutf8proc.a REQUIRED)
  add_library(utf8proc_static STATIC IMPORTED)
  set_target_properties(utf8proc_static PROPERTIES
    IMPORTED_LOCATION ${UTF8PROC_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${UTF8PROC_INCLUDE_DIR}
    INTERFACE_COMPILE_DEFINITIONS UTF8PROC_STATIC)
endif()
if(FLASHINFER_TESTS)
  find_package(GTest 1.12 REQUIRED)        # libgtest-dev, libgmock-dev
  find_package(rapidcheck REQUIRED)        # librapidcheck-dev
endif()

# The Python binding: apache-tvm-ffi 0.1 of .venv (requirements.txt), headers and the library that
# the process brings. Without it all is built but the binding.
if(FLASHINFER_PYTHON_BINDING)
  file(GLOB tvm_ffi_places ${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages/tvm_ffi)
  find_path(TVM_FFI_ROOT include/tvm/ffi/c_api.h PATHS ${tvm_ffi_places} NO_DEFAULT_PATH)
  find_library(TVM_FFI_LIBRARY tvm_ffi PATHS ${TVM_FFI_ROOT}/lib NO_DEFAULT_PATH)
  if(NOT TVM_FFI_LIBRARY)
    message(STATUS "no tvm-ffi in .venv: the Python binding is not built (tools/setup installs it)")
  endif()
endif()
