//! Classifies rows of numbers with a bundle, like serve.c: `serve MODEL.owb N < rows.txt`.
//! It declares the functions of opwright/run.h that it calls: no crate is needed.

use std::ffi::{CStr, CString};
use std::io::Read;
use std::os::raw::{c_char, c_void};
use std::ptr::{null, null_mut};

#[repr(C)]
struct Error {
    message: *mut c_char,
    size: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct DataType {
    code: u8,
    bits: u8,
    lanes: u16,
}

#[repr(C)]
struct Tensor {
    data: *mut c_void,
    device_type: i32,
    device_id: i32,
    ndim: i32,
    dtype: DataType,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

#[repr(C)]
struct Description {
    size: u64,
    name: *const c_char,
    dtype: DataType,
    ndim: i32,
    steps: *const i64,
    bases: *const i64,
    least_batch: i64,
    most_batch: i64,
}

const INPUTS: u32 = 0;
const OUTPUTS: u32 = 1;
const FLOAT: u8 = 2;
const CPU: i32 = 1;

extern "C" {
    fn ow_open(
        path: *const c_char,
        options: *const c_void,
        model: *mut *mut c_void,
        error: *const Error,
    ) -> i32;
    fn ow_count(model: *const c_void, kind: u32) -> u64;
    fn ow_describe(
        model: *const c_void,
        kind: u32,
        i: u64,
        description: *mut Description,
        error: *const Error,
    ) -> i32;
    fn ow_session_new(model: *mut c_void, session: *mut *mut c_void, error: *const Error) -> i32;
    fn ow_run(
        session: *mut c_void,
        inputs: *const *const Tensor,
        n_inputs: u64,
        outputs: *const *const Tensor,
        n_outputs: u64,
        error: *const Error,
    ) -> i32;
    fn ow_session_free(session: *mut c_void);
    fn ow_release(model: *mut c_void);
}

/// Calls a function with a buffer for an error message, which is returned if the function fails.
fn call(function: impl FnOnce(*const Error) -> i32) -> Result<(), String> {
    let mut text = [0u8; 1024];
    let error = Error { message: text.as_mut_ptr().cast(), size: text.len() as u64 };
    match function(&error) {
        0 => Ok(()),
        _ => Err(unsafe { CStr::from_ptr(text.as_ptr().cast()) }.to_string_lossy().into_owned()),
    }
}

struct Model {
    model: *mut c_void,
    session: *mut c_void,
}

impl Model {
    fn open(path: &str) -> Result<Model, String> {
        let path = CString::new(path).map_err(|error| error.to_string())?;
        let mut opened = Model { model: null_mut(), session: null_mut() };
        call(|error| unsafe { ow_open(path.as_ptr(), null(), &mut opened.model, error) })?;
        call(|error| unsafe { ow_session_new(opened.model, &mut opened.session, error) })?;
        Ok(opened)
    }

    /// Returns the dtype and shape of the only input or output, for a batch of n.
    fn describe(&self, kind: u32, n: i64) -> Result<(DataType, Vec<i64>), String> {
        let mut description: Description = unsafe { std::mem::zeroed() };
        description.size = std::mem::size_of::<Description>() as u64;
        call(|error| unsafe { ow_describe(self.model, kind, 0, &mut description, error) })?;
        let dtype = description.dtype;
        if unsafe { ow_count(self.model, kind) } != 1 || (dtype.code, dtype.bits) != (FLOAT, 32) {
            return Err("the bundle must have one input and one output of float32".into());
        }
        let dim = |d| unsafe { *description.steps.add(d) * n + *description.bases.add(d) };
        Ok((dtype, (0..description.ndim as usize).map(dim).collect()))
    }

    fn run(&self, n: i64, values: &mut [f32]) -> Result<Vec<f32>, String> {
        let (dtype, mut shape) = self.describe(INPUTS, n)?;
        let expected = shape.iter().product::<i64>() as usize;
        if values.len() != expected {
            return Err(format!("{expected} numbers were expected, got {}", values.len()));
        }
        let input = tensor_of(values, dtype, &mut shape);
        let (dtype, mut shape) = self.describe(OUTPUTS, n)?;
        let mut scores = vec![0f32; shape.iter().product::<i64>() as usize];
        let output = tensor_of(&mut scores, dtype, &mut shape);
        let (inputs, outputs) = ([&input as *const Tensor], [&output as *const Tensor]);
        call(|error| unsafe {
            ow_run(self.session, inputs.as_ptr(), 1, outputs.as_ptr(), 1, error)
        })?;
        Ok(scores)
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        unsafe {
            ow_session_free(self.session);
            ow_release(self.model);
        }
    }
}

fn tensor_of(values: &mut [f32], dtype: DataType, shape: &mut [i64]) -> Tensor {
    Tensor {
        data: values.as_mut_ptr().cast(),
        device_type: CPU,
        device_id: 0,
        ndim: shape.len() as i32,
        dtype,
        shape: shape.as_mut_ptr(),
        strides: null_mut(),
        byte_offset: 0,
    }
}

fn serve() -> Result<(), String> {
    let words: Vec<String> = std::env::args().collect();
    let (path, n) = match &words[..] {
        [_, path, n] => (path, n),
        _ => return Err("serve MODEL.owb N < rows.txt".into()),
    };
    let n: i64 = n.parse().map_err(|_| format!("N must be a number, got {n}"))?;
    let model = Model::open(path)?;
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).map_err(|error| error.to_string())?;
    let values: Result<Vec<f32>, _> = text.split_whitespace().map(str::parse).collect();
    let scores = model.run(n, &mut values.map_err(|error| error.to_string())?)?;
    for row in scores.chunks(scores.len() / n as usize) {
        let best = (0..row.len()).fold(0, |best, i| if row[i] > row[best] { i } else { best });
        println!("{best} {}", row[best]);
    }
    Ok(())
}

fn main() {
    if let Err(message) = serve() {
        eprintln!("{message}");
        std::process::exit(1);
    }
}
