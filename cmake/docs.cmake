# The target docs: docs/ as pages in build/docs, by Sphinx with MyST and the theme Furo.
find_program(SPHINX sphinx-build)
if(SPHINX)
  add_custom_target(docs
    COMMAND ${SPHINX} -q -n -W --keep-going -d ${CMAKE_BINARY_DIR}/docs-cache ${CMAKE_SOURCE_DIR}/docs ${CMAKE_BINARY_DIR}/docs
    COMMAND ${CMAKE_COMMAND} -E echo "the pages begin at ${CMAKE_BINARY_DIR}/docs/index.html" VERBATIM)
else()
  add_custom_target(docs
    COMMAND ${CMAKE_COMMAND} -E echo "docs needs sphinx-build; on Debian: apt-get install python3-myst-parser furo"
    COMMAND ${CMAKE_COMMAND} -E false VERBATIM)
endif()
