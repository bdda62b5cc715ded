package backendtest

import (
	"fmt"
	"reflect"

	"github.com/gpc-engine/gpc/domain"
)

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
		errs = append(errs, uncalled(c.Solver, domain.AbilitiesOfSolver(c.Solver))...)
	}
	if c.Plant != nil {
		errs = append(errs, uncalled(c.Plant, domain.AbilitiesOfPlant(c.Plant))...)
		if e, err := c.Plant.Episode(domainSeed, 0, domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}}); err == nil {
			errs = append(errs, uncalled(e, domain.AbilitiesOfEpisode(e))...)
		}
	}
	return errs
}
