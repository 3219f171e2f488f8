# Writes DT_GIT, the commit that is built, into FILE; leaves a file alone that says so already. A source archive has the
# commit in cmake/commit.txt, where git archive puts it.
file(READ ${SOURCE}/cmake/commit.txt archived)
string(STRIP "${archived}" archived)
execute_process(COMMAND git describe --always --abbrev=12 --dirty --exclude=* WORKING_DIRECTORY ${SOURCE}
  OUTPUT_VARIABLE id OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(NOT archived MATCHES "Format")
  string(SUBSTRING ${archived} 0 12 id)
elseif(failed OR NOT EXISTS ${SOURCE}/.git) # a repository further up is another's
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
