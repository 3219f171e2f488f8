# libdnntrain: all rooms but tools/, as a shared and a static library, and what is installed. Rooms are compiled
# with hidden visibility, so the shared one exports what include/ marks with DT_API and nothing else. The static
# one is linked by what pkg-config --static says.
include(GNUInstallDirs)
set(rooms engine memory layers data models session)
list(TRANSFORM rooms REPLACE "(.+)" "$<TARGET_OBJECTS:dt_\\1>" OUTPUT_VARIABLE objects)

add_library(dnntrain_shared SHARED ${objects})
add_library(dnntrain_static STATIC ${objects})
# What oneDNN is found by when it is built against is what it is found by when it is installed.
set_target_properties(dnntrain dnntrain_shared PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
set_target_properties(dnntrain_shared dnntrain_static PROPERTIES OUTPUT_NAME dnntrain LINKER_LANGUAGE C)
set_target_properties(dnntrain_shared PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION 0 EXPORT_NAME dnntrain)
target_include_directories(dnntrain_shared INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(dnntrain_shared PRIVATE OpenMP::OpenMP_C Threads::Threads ${CMAKE_DL_LIBS} m ZLIB::ZLIB
  PkgConfig::CJSON $<$<BOOL:${DT_CPU}>:DNNL::dnnl> $<$<BOOL:${URING_FOUND}>:PkgConfig::URING>
  $<$<BOOL:${LZ4_FOUND}>:PkgConfig::LZ4>)
# nodelete: a team of OpenMP's, and threads of ours, stay until the thread that computed ends, behind a dlclose too.
target_link_options(dnntrain_shared PRIVATE -Wl,--no-undefined -Wl,-z,nodelete
  -Wl,--version-script=${CMAKE_SOURCE_DIR}/cmake/exports.map)
set_target_properties(dnntrain_shared PROPERTIES LINK_DEPENDS ${CMAKE_SOURCE_DIR}/cmake/exports.map)
target_link_options(dnntrain_shared PRIVATE ${instrument})
if(DT_SANITIZE) # whose functions are the program's
  target_link_options(dnntrain_shared PRIVATE -Wl,-z,undefs)
endif()

set(folder ${CMAKE_INSTALL_LIBDIR}/cmake/dnntrain)
install(TARGETS dnntrain RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS dnntrain_shared EXPORT dnntrain LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS dnntrain_static ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN *.h)
install(EXPORT dnntrain NAMESPACE dnntrain:: FILE dnntrainConfig.cmake DESTINATION ${folder})
include(CMakePackageConfigHelpers)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/dnntrainConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/dnntrainConfigVersion.cmake DESTINATION ${folder})
if(TARGET dnntrain_cuda) # beside the shared library, which looks for it there
  install(TARGETS dnntrain_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()

# Written when it is installed: the prefix may be told only then.
set(DT_PC_PRIVATE "${OpenMP_C_FLAGS} -lpthread -ldl -lm -lz -lcjson")
if(DT_CPU)
  string(APPEND DT_PC_PRIVATE " -ldnnl")
endif()
if(LZ4_FOUND)
  string(APPEND DT_PC_PRIVATE " -llz4")
endif()
if(URING_FOUND)
  string(APPEND DT_PC_PRIVATE " -luring")
endif()
foreach(kind LIB INCLUDE)
  string(TOLOWER pc_${kind} pc)
  set(${pc} ${CMAKE_INSTALL_${kind}DIR})
  if(NOT IS_ABSOLUTE ${${pc}})
    string(PREPEND ${pc} "\\\${prefix}/")
  endif()
endforeach()
install(CODE "
  set(PROJECT_VERSION ${PROJECT_VERSION})
  set(DT_PC_PRIVATE \"${DT_PC_PRIVATE}\")
  get_filename_component(CMAKE_INSTALL_PREFIX \"\${CMAKE_INSTALL_PREFIX}\" ABSOLUTE)
  set(DT_PC_LIBDIR \"${pc_lib}\")
  set(DT_PC_INCLUDEDIR \"${pc_include}\")
  configure_file(\"${CMAKE_SOURCE_DIR}/cmake/dnntrain.pc.in\" \"${CMAKE_BINARY_DIR}/dnntrain.pc\" @ONLY)")
install(FILES ${CMAKE_BINARY_DIR}/dnntrain.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
