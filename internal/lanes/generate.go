package lanes

//go:generate -command asm go run -C _asm .
//go:generate asm -isa avx512 -out ../run_avx512_amd64.s
//go:generate asm -isa avx2 -out ../run_avx2_amd64.s
//go:generate asm -isa avx2half -out ../run_avx2half_amd64.s
