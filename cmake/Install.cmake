# The installed package: headers, library, command line tool, and find_package(flashinfer).
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/flashinfer)

install(TARGETS flashinfer EXPORT flashinferTargets)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(TARGET flashinfer_cli)
  install(TARGETS flashinfer_cli)
endif()
if(TARGET flashinfer_cases_program)  # check and bench, with the library's inside
  install(TARGETS flashinfer_cases_program)
  install(TARGETS flashinfer_internal flashinfer_cases LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
# Outside libraries are linked inside: the targets file is all that a user's project needs.
install(EXPORT flashinferTargets NAMESPACE flashinfer:: DESTINATION ${package_dir}
        FILE flashinferConfig.cmake)
# Until 1.0 a minor version may change the API.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/flashinferConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/flashinferConfigVersion.cmake DESTINATION ${package_dir})
