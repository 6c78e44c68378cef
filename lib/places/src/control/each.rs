//! One program part on many resources, wherever they are: what is elsewhere travels by place, and what is here runs
//! meanwhile.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::channel;

use crate::control::Control;
use crate::control::road::Road;
use crate::control::transport::Transport;
use crate::error::{Error, Result};
use crate::part::Part;
use crate::reference::Reference;

/// Calls by one client, and where their results go.
struct Group<P: Part> {
    road: Arc<Road>,
    numbers: Vec<usize>,
    ons: Vec<Reference<P::Kind>>,
    inputs: Vec<P::In>,
}

impl Control {
    /// Runs a program part on each of these resources, with what stands beside it. What one place elsewhere is to do
    /// travels together, in this order; places work at the same time. The results are in this order, too.
    ///
    /// # Errors
    /// Of each by itself, as [`call`](Self::call).
    pub fn each<'a, P: Part>(
        &self,
        all: impl IntoIterator<Item = (&'a Reference<P::Kind>, P::In)>,
    ) -> Vec<Result<P::Out>> {
        let mut results: Vec<Option<Result<P::Out>>> = Vec::new();
        let mut own = Vec::new();
        let mut groups: Vec<Group<P>> = Vec::new();
        let mut by_place: HashMap<Arc<str>, usize> = HashMap::new();
        for (number, (on, input)) in all.into_iter().enumerate() {
            results.push(None);
            let group = match by_place.get(on.place()) {
                Some(group) => *group,
                None => match self.road(on.place()) {
                    Err(error) => {
                        results[number] = Some(Err(error));
                        continue;
                    }
                    Ok(road) if matches!(&*road, Road::Home(_)) => {
                        own.push((number, on, input));
                        continue;
                    }
                    Ok(road) => {
                        by_place.insert(Arc::clone(on.shared_place()), groups.len());
                        let (numbers, ons, inputs) = (Vec::new(), Vec::new(), Vec::new());
                        groups.push(Group { road, numbers, ons, inputs });
                        groups.len() - 1
                    }
                },
            };
            groups[group].numbers.push(number);
            groups[group].ons.push(on.clone());
            groups[group].inputs.push(input);
        }
        let (tell, told) = channel();
        for Group { road, numbers, ons, inputs } in groups {
            let net = match &*road {
                Road::Net(net) => Some(net),
                Road::Lines(lines) => lines.beside.as_ref(),
                Road::Home(_) => None,
            };
            match net {
                Some(net) => {
                    let (client, tell) = (net.within(self.limit), tell.clone());
                    net.engine().runtime().spawn(async move {
                        let answers = client.each::<P>(ons.iter().zip(inputs)).await;
                        let _ = tell.send((numbers, answers));
                    });
                }
                None => {
                    let one = |(on, input)| road.call::<P>(on, input, self.limit);
                    let answers = ons.iter().zip(&inputs).map(one).collect();
                    let _ = tell.send((numbers, answers));
                }
            }
        }
        drop(tell);
        for (number, on, input) in own {
            results[number] = Some(self.call::<P>(on, input));
        }
        for (numbers, answers) in told {
            for (number, answer) in numbers.into_iter().zip(answers) {
                if let Err(Error::Gone { place }) = &answer {
                    self.inner.forget(place);
                }
                results[number] = Some(answer);
            }
        }
        let lost = || {
            // Its task has gone with its thread.
            let why = "the control's thread has ended".to_owned();
            Err(Error::Unknown { place: "elsewhere".to_owned(), why })
        };
        results.into_iter().map(|result| result.unwrap_or_else(lost)).collect()
    }
}
