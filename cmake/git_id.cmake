# Writes DT_GIT, the commit that is built, into FILE; leaves a file alone that says so already.
execute_process(COMMAND git describe --always --abbrev=12 --dirty --exclude=* WORKING_DIRECTORY ${SOURCE}
  OUTPUT_VARIABLE id OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed)
  set(id "")
endif()
set(text "#define DT_GIT \"${id}\"\n")
set(had "")
if(EXISTS ${FILE})
  file(READ ${FILE} had)
endif()
if(NOT had STREQUAL text)
  file(WRITE ${FILE} "${text}")
endif()
