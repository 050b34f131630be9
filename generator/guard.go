package generator

// GuardProgram is where meshgen-guard is installed, which the services of
// containers run before they start: units.Guarded. The linker is told, by make,
// which knows the prefix.
var GuardProgram = "/usr/lib/meshgen/meshgen-guard" //nolint:gochecknoglobals // -X of the linker sets nothing else
