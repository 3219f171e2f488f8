# Writes FROM into TO as a C array of characters that ends in NUL, declared by HEADER: cmake -DFROM= -DTO= -DNAME= -DHEADER= -P
file(READ ${FROM} bytes HEX)
string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${bytes}")
file(WRITE ${TO} "#include \"${HEADER}\"\n\nconst char ${NAME}[] = {\n${bytes}0};\n")
