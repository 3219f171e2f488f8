# Manual pages, completion and examples. The first two are from the table of commands: pages are written by asking
# the program, and completion asks it when it is used.
find_program(SH sh REQUIRED)
set(man ${CMAKE_BINARY_DIR}/man)
add_custom_command(OUTPUT ${man}/dnntrain.1
  COMMAND ${SH} ${CMAKE_SOURCE_DIR}/cmake/man.sh ${man} ${PROJECT_VERSION}
    ${CMAKE_CROSSCOMPILING_EMULATOR} $<TARGET_FILE:dnntrain>
  DEPENDS dnntrain ${CMAKE_SOURCE_DIR}/cmake/man.sh ${CMAKE_SOURCE_DIR}/debian/changelog VERBATIM)
add_custom_target(manual ALL DEPENDS ${man}/dnntrain.1)
install(DIRECTORY ${man}/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 FILES_MATCHING PATTERN *.1)
install(FILES tools/completion/dnntrain.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
  RENAME dnntrain)
set(DT_ZSH_DIR ${CMAKE_INSTALL_DATADIR}/zsh/site-functions CACHE STRING "where zsh looks for completion, below the prefix")
install(FILES tools/completion/_dnntrain DESTINATION ${DT_ZSH_DIR})

# What messages call configs/ and tools/, side by side as they are here, to be copied by who wants to use it.
set(DT_EXAMPLES ${CMAKE_INSTALL_DOCDIR}/examples)
install(DIRECTORY configs DESTINATION ${DT_EXAMPLES} FILES_MATCHING
  PATTERN *.ini PATTERN published.txt PATTERN *.profile)
install(PROGRAMS tools/get_data tools/table.py tools/weights.py DESTINATION ${DT_EXAMPLES}/tools)
