module meshgen

go 1.26.0
