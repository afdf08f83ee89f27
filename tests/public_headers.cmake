# Compiles each public header alone, twice included, with the strictest warnings: failing to build
# is failing the test.
file(GLOB_RECURSE public_headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/include
     ${PROJECT_SOURCE_DIR}/include/flashinfer/*.h)
set(header_units)
foreach(header IN LISTS public_headers)
  string(REPLACE "/" "_" unit ${header})
  set(unit ${CMAKE_CURRENT_BINARY_DIR}/public_headers/${unit}.cc)
  file(CONFIGURE OUTPUT ${unit} CONTENT "#include \"${header}\"\n#include \"${header}\"\n")
  list(APPEND header_units ${unit})
endforeach()
add_library(public_headers OBJECT EXCLUDE_FROM_ALL ${header_units})
target_include_directories(public_headers PRIVATE ${PROJECT_SOURCE_DIR}/include)
target_compile_options(public_headers PRIVATE -Wall -Wextra -Wconversion -Werror)
add_test(NAME public_headers_test
         COMMAND ${CMAKE_COMMAND} --build ${PROJECT_BINARY_DIR} --target public_headers)
set_tests_properties(public_headers_test PROPERTIES LABELS unit)
