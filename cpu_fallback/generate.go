package cpufallback

//go:generate -command asm go run -C _asm .
//go:generate asm -kernel tile-avx512 -out ../internal/gemm/tile_avx512_amd64.s
//go:generate asm -kernel tile-avx2 -out ../internal/gemm/tile_avx2_amd64.s
//go:generate asm -kernel sparse-avx512 -out ../internal/gemm/compress_avx512_amd64.s
//go:generate asm -kernel sparse-avx2 -out ../internal/gemm/compress_avx2_amd64.s
//go:generate asm -kernel adam -out ../internal/adam/adam_amd64.s
//go:generate asm -kernel ceiling -out ../internal/ceiling/ceiling_amd64.s
