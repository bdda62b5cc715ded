package backendtest

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/gpc-engine/gpc/domain"
)

// optional are the interfaces that a problem, a solver, a plant and its episodes may fulfil
// beside the one that they have to.
type optional struct {
	own reflect.Type
	may []reflect.Type
}

var (
	ofSolver = optional{reflect.TypeFor[domain.Solver](), []reflect.Type{
		reflect.TypeFor[domain.InwardSolver](), reflect.TypeFor[domain.Interruptible](), reflect.TypeFor[domain.Optimizer](), reflect.TypeFor[domain.Receding](),
		reflect.TypeFor[domain.ScenarioSolver](), reflect.TypeFor[domain.Tightening](), reflect.TypeFor[domain.VisitedSolver](),
	}}
	ofHorizon = optional{reflect.TypeFor[domain.Horizon](), []reflect.Type{
		reflect.TypeFor[domain.Correcting](), reflect.TypeFor[domain.Timely](),
	}}
	ofPlant = optional{reflect.TypeFor[domain.Plant](), []reflect.Type{
		reflect.TypeFor[domain.Preparing](), reflect.TypeFor[domain.Staging](), reflect.TypeFor[domain.Together](),
	}}
)

// check finds methods of v that have the name of an optional interface's and would never be
// called, because v has another signature for them or lacks the interface's other methods.
func (o optional) check(v any) (errs []error) {
	t := reflect.TypeOf(v)
	// A name is that of the smallest interface that has it, and called where any that v fulfils does.
	of, called := map[string]reflect.Type{}, map[string]bool{}
	for _, i := range append([]reflect.Type{o.own}, o.may...) {
		for k := range i.NumMethod() {
			name := i.Method(k).Name
			called[name] = called[name] || t.Implements(i)
			if of[name] == nil || i.NumMethod() < of[name].NumMethod() {
				of[name] = i
			}
		}
	}
	for _, i := range o.may {
		if t.Implements(i) {
			continue
		}
		meant, lacking := "", []string(nil)
		for k := range i.NumMethod() {
			want := i.Method(k)
			got := reflect.ValueOf(v).MethodByName(want.Name)
			switch {
			case !got.IsValid():
				lacking = append(lacking, fmt.Sprintf("it has no %s", want.Name))
			case got.Type() != want.Type:
				lacking = append(lacking, fmt.Sprintf("its %s is %v instead of %v", want.Name, got.Type(), want.Type))
			}
			if got.IsValid() && of[want.Name] == i && !called[want.Name] && meant == "" {
				meant = want.Name
			}
		}
		if meant != "" {
			errs = append(errs, fmt.Errorf("%s of %v is never called, since that is no %v: %s", meant, t, i, strings.Join(lacking, ", ")))
		}
	}
	return errs
}

// uncalled finds methods of v that have the name of an ability and would never be called, because v does not
// name them among its own: may, a pointer to a struct of functions.
func uncalled(v, may any) (errs []error) {
	own := reflect.ValueOf(may).Elem()
	for i := range own.NumField() {
		name := own.Type().Field(i).Name
		if of := own.Field(i); of.Kind() == reflect.Func && of.IsNil() && reflect.ValueOf(v).MethodByName(name).IsValid() {
			errs = append(errs, fmt.Errorf("%s of %T is never called: its Abilities are to name it in %v", name, v, own.Type()))
		}
	}
	return errs
}

// checkInterfaces looks for methods that nothing would call in all that a case is made of.
func checkInterfaces(c domain.Case) []error {
	errs := uncalled(c.Problem, domain.AbilitiesOfProblem(c.Problem))
	if c.Solver != nil {
		errs = append(errs, ofSolver.check(c.Solver)...)
		if r, ok := c.Solver.(domain.Receding); ok {
			errs = append(errs, ofHorizon.check(r.NewHorizon(1))...)
		}
	}
	if c.Plant != nil {
		errs = append(errs, ofPlant.check(c.Plant)...)
		if e, err := c.Plant.Episode(domainSeed, 0, domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}}); err == nil {
			errs = append(errs, uncalled(e, domain.AbilitiesOfEpisode(e))...)
		}
	}
	return errs
}
