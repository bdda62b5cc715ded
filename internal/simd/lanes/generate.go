package lanes

//go:generate -command asm go run -C _asm .
//go:generate asm -isa avx512 -out ../run_avx512_amd64.s
//go:generate asm -isa avx2 -out ../run_avx2_amd64.s
//go:generate asm -isa avx2one -out ../run_avx2one_amd64.s
