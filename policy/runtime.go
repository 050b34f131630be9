package policy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"github.com/tetratelabs/wazero/sys"
)

// compileDeadline bounds the time in which a program is compiled. A large one in
// Go takes two seconds on a fast machine.
const compileDeadline = time.Minute

// Runtime runs policies. It compiles each program once, and starts nothing
// before the first decision. It is for one goroutine at a time.
type Runtime struct {
	limits   Limits
	cache    cache
	programs map[string]*program // by sha256
	digests  map[place]string    // of code that was seen
}

// place is where a program's code is in the memory of this process.
type place struct {
	begin *byte
	size  int
}

// program is a policy that is ready to be asked, or what is wrong with it.
type program struct {
	runtime  wazero.Runtime
	compiled wazero.CompiledModule
	fault    error
	spent    time.Duration // on its decisions
}

// NewRuntime returns a runtime that keeps what it compiled below a directory,
// which it makes where it needs it; "" for none. The directory is for nothing
// else, and who may write to it decides what policies answer.
func NewRuntime(cacheDir string, l Limits) *Runtime {
	return &Runtime{limits: l.bounded(), cache: cache{cacheDir}, programs: map[string]*program{}, digests: map[place]string{}}
}

// Close frees what was compiled. The runtime must not be used after it.
func (r *Runtime) Close() error {
	var err error
	for _, p := range r.programs {
		err = errors.Join(err, p.close())
	}
	r.programs = nil
	return err
}

func (p *program) close() error {
	if p.runtime == nil {
		return nil
	}
	return p.runtime.Close(context.Background())
}

// Decide asks a policy for its decision, in an instance that is made for it and
// ended with it. The transition is the fact of that name. Where the context is
// done, or the limits are reached, or the policy breaks a rule of the ABI, the
// decision is Refuse and the answer's fault says why. A program that has reached
// its deadline once, or the time for all its decisions, is not run again; of
// everything else a later Decide is not touched.
func (r *Runtime) Decide(ctx context.Context, m Module, f Facts) Answer {
	c := &call{facts: f, read: Facts{}, most: r.limits.Reason}
	d, err := r.decide(ctx, m, c)
	if err == nil && !offered(f["transition"], d) {
		err = notOffered(f["transition"], d)
	}
	a := Answer{Decision: d, Reason: oneLine(c.reason), Read: c.read}
	if err != nil {
		a.Decision, a.Fault = Refuse, "policy "+Line(m.Name)+": "+oneLine([]byte(err.Error()))
	}
	return a
}

func notOffered(transition string, d Decision) error {
	if Offers(transition) == nil {
		return fmt.Errorf("was asked of a transition %q, of which no policy decides", transition)
	}
	return fmt.Errorf("answered %d, %s, and %s", int32(d), d, offers(transition)) //nolint:gosec // as it answered
}

// offers says which decisions a transition has, as "a rename offers follow,
// migrate, refuse".
func offers(transition string) string {
	words := make([]string, 0, 3)
	for _, d := range Offers(transition) {
		words = append(words, d.String())
	}
	return "a " + transition + " offers " + strings.Join(words, ", ")
}

// decide returns what the policy answered.
func (r *Runtime) decide(ctx context.Context, m Module, c *call) (Decision, error) {
	p := r.program(ctx, m)
	if p.fault != nil {
		return Refuse, p.fault
	}
	room, begun := r.limits.Total-p.spent, time.Now()
	timed, cancel := context.WithTimeout(context.WithValue(ctx, callKey{}, c), min(r.limits.Deadline, room))
	defer cancel()
	answer, err := p.run(timed, c)
	p.spent += time.Since(begun)
	if p.spent >= r.limits.Total {
		p.fault = fmt.Errorf("took %s for its decisions, and may have no more", r.limits.Total)
	}
	switch {
	case err == nil:
		return Decision(answer), nil
	case ctx.Err() != nil:
		return Refuse, context.Cause(ctx)
	case c.broke == nil && timed.Err() != nil && room < r.limits.Deadline:
		return Refuse, p.fault
	case c.broke == nil && timed.Err() != nil:
		// It is asked of each transition, and each would wait as long.
		p.fault = fmt.Errorf("did not answer within %s when it was asked before", r.limits.Deadline)
		return Refuse, fmt.Errorf("did not answer within %s%s", r.limits.Deadline, c.printed())
	}
	return Refuse, c.cause(err)
}

// run has a new instance decide. wazero's defaults are a sandbox: no files,
// arguments or environment, the same random bytes for each instance, and a clock
// that stands at the beginning of 2022 but for a millisecond that each look at
// it takes, so that who waits for a time does not wait for ever.
func (p *program) run(ctx context.Context, c *call) (answer uint32, err error) {
	defer recovered(&err)
	config := wazero.NewModuleConfig().WithName("").WithStartFunctions("_initialize").WithStdout(&c.output).WithStderr(&c.output)
	mod, err := p.runtime.InstantiateModule(ctx, p.compiled, config)
	if err != nil {
		return 0, err
	}
	defer func() { _ = mod.Close(context.WithoutCancel(ctx)) }() // it has nothing but memory
	result, err := mod.ExportedFunction("decide").Call(ctx)
	if err != nil {
		return 0, err
	}
	return api.DecodeU32(result[0]), nil
}

// cause says in a line why a program ended before it answered.
func (c *call) cause(err error) error {
	if c.broke != nil {
		return c.broke
	}
	if exit, ok := errors.AsType[*sys.ExitError](err); ok {
		return fmt.Errorf("ended with exit code %d before it answered%s", exit.ExitCode(), c.printed())
	}
	line, _, _ := strings.Cut(err.Error(), "\n") // then comes a stack of functions without names
	return fmt.Errorf("%s%s", strings.TrimSuffix(line, " (recovered by wazero)"), c.printed())
}

// printed says what the program printed, if it did.
func (c *call) printed() string {
	if text := oneLine(c.output.text); text != "" {
		return ", having printed: " + text
	}
	return ""
}

// program returns a policy's program, compiled once.
func (r *Runtime) program(ctx context.Context, m Module) *program {
	sum := r.digest(m)
	if p, ok := r.programs[sum]; ok {
		return p
	}
	p := r.load(ctx, m, sum)
	if ctx.Err() == nil { // else what went wrong says nothing of the program
		r.programs[sum] = p
	}
	return p
}

// digest returns the sha256 of a program, computed once.
func (r *Runtime) digest(m Module) string {
	if len(m.Code) == 0 {
		return m.SHA256()
	}
	at := place{&m.Code[0], len(m.Code)}
	sum, ok := r.digests[at]
	if !ok {
		sum = m.SHA256()
		r.digests[at] = sum
	}
	return sum
}

func (r *Runtime) load(ctx context.Context, m Module, sum string) *program {
	if err := r.limits.fits(m); err != nil {
		return &program{fault: err}
	}
	vetted, err := vet(m.Code)
	if err != nil {
		return &program{fault: err}
	}
	if sum == r.digest(Builtin()) {
		// It is so small that to compile it takes longer than to interpret it.
		return r.compile(ctx, vetted, wazero.NewRuntimeConfigInterpreter())
	}
	if dir, ok := r.cache.entry(sum); ok {
		if p := r.compileBelow(ctx, vetted, dir); p.fault == nil {
			return p
		}
	}
	dir := r.cache.begin()
	p := r.compileBelow(ctx, vetted, dir)
	if p.fault != nil {
		r.cache.drop(dir)
		return r.compileBelow(ctx, vetted, "")
	}
	r.cache.finish(dir, sum)
	return p
}

func (l Limits) fits(m Module) error {
	if len(m.Code) > l.Size {
		return fmt.Errorf("has %d bytes, and may have %d", len(m.Code), l.Size)
	}
	return nil
}

// compileBelow compiles with a directory for what comes of it; "" for none.
func (r *Runtime) compileBelow(ctx context.Context, vetted []byte, dir string) *program {
	config := wazero.NewRuntimeConfig()
	if dir != "" {
		c, err := wazero.NewCompilationCacheWithDir(dir)
		if err != nil {
			return &program{fault: err}
		}
		config = config.WithCompilationCache(c)
	}
	return r.compile(ctx, vetted, config)
}

// compile compiles with a deadline. wazero cannot be interrupted: where the
// deadline is over, what it does is left to itself until the process ends.
func (r *Runtime) compile(ctx context.Context, vetted []byte, config wazero.RuntimeConfig) *program {
	ctx, cancel := context.WithTimeout(ctx, compileDeadline)
	defer cancel()
	done := make(chan *program, 1)
	go func() { done <- r.compileNow(context.WithoutCancel(ctx), vetted, config) }()
	select {
	case p := <-done:
		return p
	case <-ctx.Done():
		return &program{fault: fmt.Errorf("was not compiled: %w", context.Cause(ctx))}
	}
}

// compileNow compiles a program and makes what it imports.
func (r *Runtime) compileNow(ctx context.Context, vetted []byte, config wazero.RuntimeConfig) *program {
	p := &program{}
	host, err := p.decode(ctx, vetted, config.WithMemoryLimitPages(r.limits.pages()))
	if err == nil {
		err = errors.Join(misfits(p.compiled, host)...)
	}
	for _, module := range slices.Sorted(maps.Keys(host)) {
		if err == nil {
			_, err = p.runtime.InstantiateModule(ctx, host[module], wazero.NewModuleConfig().WithName(module))
		}
	}
	if err != nil {
		_ = p.close() // nothing runs in it
		return &program{fault: err}
	}
	return p
}

func (l Limits) pages() uint32 { return uint32((l.Memory + pageSize - 1) / pageSize) } //nolint:gosec // bounded

// decode has wazero compile a program and those modules that it imports from, of
// the ones that there are.
func (p *program) decode(ctx context.Context, vetted []byte, config wazero.RuntimeConfig) (host map[string]wazero.CompiledModule, err error) {
	defer recovered(&err)
	p.runtime = wazero.NewRuntimeWithConfig(ctx, config.WithCloseOnContextDone(true).WithDebugInfoEnabled(false))
	if p.compiled, err = p.runtime.CompileModule(ctx, vetted); err != nil {
		return nil, fmt.Errorf("cannot be run: %w", err)
	}
	host = map[string]wazero.CompiledModule{}
	for _, f := range p.compiled.ImportedFunctions() {
		module, _, _ := f.Import()
		switch _, made := host[module]; {
		case made:
		case module == hostModule:
			host[module], err = newHost(p.runtime).Compile(ctx)
		case module == wasiModule:
			host[module], err = wasi_snapshot_preview1.NewBuilder(p.runtime).Compile(ctx)
		}
		if err != nil {
			return nil, err
		}
	}
	return host, nil
}

// recovered makes an error of a panic of wazero's: it is the fault of the program
// that led to it.
func recovered(err *error) {
	if v := recover(); v != nil {
		*err = fmt.Errorf("cannot be run: %v", v)
	}
}

// misfits returns what stands between a program and the ABI.
func misfits(compiled wazero.CompiledModule, host map[string]wazero.CompiledModule) []error {
	var faults []error
	for _, f := range compiled.ImportedFunctions() {
		module, name, _ := f.Import()
		offered := map[string]api.FunctionDefinition{}
		if h, ok := host[module]; ok {
			offered = h.ExportedFunctions()
		}
		if o, ok := offered[name]; !ok {
			faults = append(faults, fmt.Errorf("imports %s.%s, which there is not", module, name))
		} else if !sameType(f, o.ParamTypes(), o.ResultTypes()) {
			faults = append(faults, fmt.Errorf("imports %s.%s as %s, which is %s", module, name, typeOf(f), typeOf(o)))
		}
	}
	if _, ok := compiled.ExportedMemories()["memory"]; !ok {
		faults = append(faults, errors.New("exports no memory by the name memory"))
	}
	exports := compiled.ExportedFunctions()
	decide, ok := exports["decide"]
	switch _, command := exports["_start"]; {
	case !ok && command:
		faults = append(faults, errors.New("exports no function decide, but _start: it was built as a command, and not as a library"))
	case !ok:
		faults = append(faults, errors.New("exports no function decide"))
	case !sameType(decide, nil, words(1)):
		faults = append(faults, fmt.Errorf("exports decide as %s, which has to be () -> i32", typeOf(decide)))
	}
	if f, ok := exports["_initialize"]; ok && !sameType(f, nil, nil) {
		faults = append(faults, fmt.Errorf("exports _initialize as %s, which has to be ()", typeOf(f)))
	}
	return faults
}

func sameType(f api.FunctionDefinition, params, results []api.ValueType) bool {
	return slices.Equal(f.ParamTypes(), params) && slices.Equal(f.ResultTypes(), results)
}

// typeOf writes the type of a function as "(i32, i32) -> i32".
func typeOf(f api.FunctionDefinition) string {
	names := func(types []api.ValueType) string {
		list := make([]string, len(types))
		for i, t := range types {
			list[i] = api.ValueTypeName(t)
		}
		return strings.Join(list, ", ")
	}
	text := "(" + names(f.ParamTypes()) + ")"
	switch results := f.ResultTypes(); len(results) {
	case 0:
	case 1:
		text += " -> " + names(results)
	default:
		text += " -> (" + names(results) + ")"
	}
	return text
}
