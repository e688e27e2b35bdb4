# SPDX-License-Identifier: Apache-2.0
# dsec_library(NAME SOURCES ... [PUBLIC ...] [PRIVATE ...]): one static library per folder.
# dsec_program(NAME SOURCES ... [PRIVATE ...] [OUTPUT file-name]): one program in bin/.
function(dsec_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  add_library(dsec_${name} STATIC ${ARG_SOURCES})
  add_library(dsec::${name} ALIAS dsec_${name})
  target_link_libraries(dsec_${name} PUBLIC dsec_settings ${ARG_PUBLIC} PRIVATE ${ARG_PRIVATE})
endfunction()

function(dsec_program name)
  cmake_parse_arguments(ARG "" "OUTPUT" "SOURCES;PRIVATE" ${ARGN})
  add_executable(dsec_${name} ${ARG_SOURCES})
  target_link_libraries(dsec_${name} PRIVATE dsec_settings ${ARG_PRIVATE})
  if(ARG_OUTPUT)
    set_target_properties(dsec_${name} PROPERTIES OUTPUT_NAME ${ARG_OUTPUT})
  endif()
endfunction()
