# Embeds the headers that kernels are compiled from: flashinfer_embed_kernels(TARGET [HEADER ...]) adds a
# source with one read-only table to the target, which holds HEADERs (those of tests) beside src/kernels.
# As a script (cmake -P) it writes that source. The table holds, for each
# header, its text, the headers that it needs (itself and what they include), and one hash of their
# names and contents: the part of a kernel's key that stands for device code.
if(NOT CMAKE_SCRIPT_MODE_FILE)
  function(flashinfer_embed_kernels target)
    set(root ${PROJECT_SOURCE_DIR})
    file(GLOB_RECURSE headers CONFIGURE_DEPENDS ${root}/src/kernels/*.h ${root}/src/kernels/*.cuh)
    list(APPEND headers ${root}/src/core/field_list.h ${root}/src/core/philox.h
         ${root}/src/core/tensor_map.h ${root}/include/flashinfer/dtype.h ${root}/include/flashinfer/weight_format.h ${ARGN})
    set(output ${CMAKE_CURRENT_BINARY_DIR}/embedded_headers_${target}.cc)
    set(script ${root}/cmake/EmbedKernels.cmake)
    add_custom_command(OUTPUT ${output} DEPENDS ${headers} ${script} VERBATIM
      COMMAND ${CMAKE_COMMAND} "-Dheaders=${headers}" -Droot=${root} -Doutput=${output} -P ${script}
      COMMENT "Embedding kernel headers")
    target_sources(${target} PRIVATE ${output})
  endfunction()
  return()
endif()

cmake_minimum_required(VERSION 3.25)

# As kernels include them: relative to src, include or tests.
set(names "")
foreach(path IN LISTS headers)
  file(RELATIVE_PATH name ${root} ${path})
  string(REGEX REPLACE "^(src|include|tests)/" "" name ${name})
  list(APPEND names ${name})
  set(path_${name} ${path})
  file(STRINGS ${path} lines REGEX "^#include \"[^\"]+\"")
  string(REGEX MATCHALL "\"[^\"]+\"" included "${lines}")
  string(REPLACE "\"" "" includes_${name} "${included}")
endforeach()
list(SORT names)

# The closure of `name`, sorted.
function(closure_of name result)
  set(found ${name})
  set(todo ${name})
  while(todo)
    list(POP_FRONT todo next)
    foreach(included IN LISTS includes_${next})
      if(NOT included IN_LIST names)
        message(FATAL_ERROR "${next} includes \"${included}\", which is not a kernel header")
      endif()
      if(NOT included IN_LIST found)
        list(APPEND found ${included})
        list(APPEND todo ${included})
      endif()
    endforeach()
  endwhile()
  list(SORT found)
  set(${result} ${found} PARENT_SCOPE)
endfunction()

set(texts "")
set(tables "")
set(rows "")
set(index 0)
foreach(name IN LISTS names)
  file(READ ${path_${name}} text)
  string(APPEND texts "constexpr std::string_view kText${index} = R\"kernel(${text})kernel\";\n")
  closure_of(${name} closure)
  set(hashed "")
  set(indices "")
  foreach(part IN LISTS closure)
    file(SHA256 ${path_${part}} hash)
    string(APPEND hashed "${part} ${hash}\n")
    list(FIND names ${part} part_index)
    list(APPEND indices ${part_index})
  endforeach()
  string(SHA256 closure_hash "${hashed}")
  string(SUBSTRING ${closure_hash} 0 32 closure_hash)
  list(JOIN indices ", " indices)
  string(APPEND tables "constexpr uint16_t kClosure${index}[] = {${indices}};\n")
  string(APPEND rows "    {\"${name}\", kText${index}, \"${closure_hash}\", kClosure${index}},\n")
  math(EXPR index "${index} + 1")
endforeach()

file(WRITE ${output}
"// Written by cmake/EmbedKernels.cmake.
#include \"jit/source.h\"

namespace flashinfer::jit {
namespace {

${texts}
${tables}
constexpr EmbeddedHeader kHeaders[] = {
${rows}};

}  // namespace

std::span<const EmbeddedHeader> EmbeddedHeaders() { return kHeaders; }

}  // namespace flashinfer::jit
")
