# The target archive: the last commit as build/dnntrain-VERSION.tar.gz, which builds without git.
set(name dnntrain-${PROJECT_VERSION})
add_custom_target(archive
  COMMAND git archive --format=tar.gz --prefix=${name}/ -o ${CMAKE_BINARY_DIR}/${name}.tar.gz HEAD
  COMMAND ${CMAKE_COMMAND} -E echo "${CMAKE_BINARY_DIR}/${name}.tar.gz" WORKING_DIRECTORY ${CMAKE_SOURCE_DIR} VERBATIM)
