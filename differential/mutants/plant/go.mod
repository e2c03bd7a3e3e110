module pinproof.invalid/plant

go 1.22
