module example.com/heating

go 1.26

toolchain go1.26.8

require github.com/gpc-engine/gpc v0.0.0

replace github.com/gpc-engine/gpc => ../..
