package modules

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/build"
	"cuelang.org/go/cue/errors"
	"cuelang.org/go/cue/load"
	"cuelang.org/go/cue/parser"
	"cuelang.org/go/mod/modfile"
	"cuelang.org/go/mod/module"

	"meshgen/units"
)

// A source is a file of the manifest.
type source struct {
	name    string // below the manifest directory, with slashes
	pkg     string // of its package clause; "" where it has none
	imports []string
	syntax  *ast.File // once its package was read
}

// read returns the value of the whole manifest. Faults of syntax and of
// imports are noted; the error is for what cannot be read.
func (l *loader) read() (cue.Value, error) {
	dir, err := filepath.Abs(l.dir)
	if err != nil {
		return cue.Value{}, err
	}
	l.dir = dir
	names, err := cueFiles(dir)
	if err != nil {
		return cue.Value{}, err
	}
	if err := l.headers(names); err != nil || len(l.faults) > 0 {
		return cue.Value{}, err
	}
	if err := l.leaveLibraries(); err != nil || len(l.faults) > 0 {
		return cue.Value{}, err
	}
	root := l.context.CompileString("{}")
	for i, pkg := range l.packages() {
		v := l.build(pkg)
		if i == 0 {
			root = v
		} else {
			root = root.Unify(v)
		}
	}
	return root, nil
}

// cueFiles returns the names of the files that Load reads, below dir.
func cueFiles(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		name := e.Name()
		if strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") {
			continue
		}
		if e.IsDir() {
			below, err := cueFilesBelow(filepath.Join(dir, name))
			if err != nil {
				return nil, err
			}
			for _, b := range below {
				names = append(names, name+"/"+b)
			}
			continue
		}
		if isManifestFile(name) && !isDirectory(filepath.Join(dir, name)) {
			names = append(names, name)
		}
	}
	return names, nil
}

// cueFilesBelow is cueFiles for a subdirectory, which may be none of ours.
func cueFilesBelow(dir string) ([]string, error) {
	if filepath.Base(dir) == "cue.mod" {
		return nil, nil
	}
	if isDirectory(filepath.Join(dir, "cue.mod")) {
		return nil, nil
	}
	return cueFiles(dir)
}

func isManifestFile(name string) bool {
	base, ok := strings.CutSuffix(name, ".cue")
	return ok && !strings.HasSuffix(base, "_test") && !strings.HasSuffix(base, "_tool")
}

func isDirectory(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// headers reads the package clause and the imports of each file.
func (l *loader) headers(names []string) error {
	for _, name := range names {
		file := filepath.Join(l.dir, filepath.FromSlash(name))
		text, err := os.ReadFile(file) //nolint:gosec // a file of the manifest, listed by us
		if err != nil {
			return err
		}
		s := source{name: name}
		syntax, err := parser.ParseFile(file, text, parser.ImportsOnly)
		if err != nil {
			l.evaluation(err)
			continue
		}
		s.pkg = syntax.PackageName()
		for spec := range syntax.ImportSpecs() {
			s.imports = append(s.imports, strings.Trim(spec.Path.Value, `"`))
		}
		l.sources = append(l.sources, s)
	}
	return nil
}

// leaveLibraries drops the packages that others import: they are brought in
// by those, and are not the manifest itself.
func (l *loader) leaveLibraries() error {
	text, err := os.ReadFile(filepath.Join(l.dir, "cue.mod", "module.cue"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // without a module nothing local can be imported
	}
	if err != nil {
		return err
	}
	file, err := modfile.ParseNonStrict(text, filepath.Join(l.dir, "cue.mod", "module.cue"))
	if err != nil {
		for _, e := range errors.Errors(err) {
			at := units.Position{File: "cue.mod/module.cue", Line: 1, Column: 1}
			if pos := e.Position(); l.owns(pos) {
				at = l.position(pos)
			}
			l.fault(at, nil, e.Error(), "")
		}
		return nil
	}
	libraries := map[string]bool{}
	for _, s := range l.sources {
		for _, i := range s.imports {
			if library, ok := localPackage(i, ast.ParseImportPath(file.Module).Path); ok {
				libraries[library] = true
			}
		}
	}
	l.sources = slices.DeleteFunc(l.sources, func(s source) bool { return libraries[s.library()] })
	return nil
}

// localPackage returns the directory of an imported package below the module's
// root and its name, as dir:name; false where it is not of the module.
func localPackage(imported, root string) (string, bool) {
	p := ast.ParseImportPath(imported)
	if p.Path != root && !strings.HasPrefix(p.Path, root+"/") {
		return "", false
	}
	return strings.TrimPrefix(strings.TrimPrefix(p.Path, root), "/") + ":" + p.Qualifier, true
}

// library returns dir:name of the package that the file would be imported by.
func (s source) library() string {
	i := max(strings.LastIndexByte(s.name, '/'), 0)
	return s.name[:i] + ":" + s.pkg
}

func (l *loader) packages() []string {
	var packages []string
	for _, s := range l.sources {
		if !slices.Contains(packages, s.pkg) {
			packages = append(packages, s.pkg)
		}
	}
	return packages
}

// build returns the value of all files of one package, wherever they lie.
func (l *loader) build(pkg string) cue.Value {
	var files []string
	for _, s := range l.sources {
		if s.pkg == pkg {
			files = append(files, filepath.FromSlash(s.name))
		}
	}
	instance := load.Instances(files, &load.Config{
		Dir:        l.dir,
		ModuleRoot: l.dir,
		Registry:   noRegistry{},
		Env:        []string{},
	})[0]
	l.keepSyntax(instance)
	if instance.Err != nil {
		l.evaluation(instance.Err)
		return l.context.CompileString("{}")
	}
	return l.context.BuildInstance(instance)
}

// keepSyntax keeps the syntax of the files for the sake of positions.
func (l *loader) keepSyntax(instance *build.Instance) {
	for _, i := range append(instance.Dependencies(), instance) {
		l.files = append(l.files, i.Files...)
	}
	for _, f := range instance.Files {
		name := l.relative(f.Filename)
		for i := range l.sources {
			if l.sources[i].name == name {
				l.sources[i].syntax = f
			}
		}
	}
}

// noRegistry is the registry that has nothing: what a manifest needs lies
// below its directory.
type noRegistry struct{}

func (noRegistry) ModFile(_ context.Context, m module.Version) (*modfile.File, error) {
	return nil, notFetched(m.String())
}

func (noRegistry) Fetch(_ context.Context, m module.Version) (module.SourceLoc, error) {
	return module.SourceLoc{}, notFetched(m.String())
}

func (noRegistry) ModuleVersions(_ context.Context, path string) ([]string, error) {
	return nil, notFetched(path)
}

func notFetched(what string) error {
	return fmt.Errorf("%s: modules are not fetched: have it below the manifest directory", what)
}
