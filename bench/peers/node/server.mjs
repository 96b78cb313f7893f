// The official TypeScript SDK as its README shows it: registerTool with zod, serveStdio.
import { McpServer } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { z } from 'zod';

const kind = process.argv[2] ?? 'basic';
const numbers = z.object({
    first: z.int().describe('The first number, a whole one.'),
    second: z.number().describe('The second number.'),
    label: z.string().describe('What to call the sum.')
});

function addTools(server) {
    const named = async ({ first, second, label }) => ({ content: [{ type: 'text', text: `${label}: ${first + second}` }] });
    server.registerTool('add', { description: 'Add two numbers and name their sum.', inputSchema: numbers }, named);
    server.registerTool('add_sync', { description: 'Add two numbers and name their sum.', inputSchema: numbers }, named);
}

function addStructured(server) {
    const outputSchema = z.object({ label: z.string(), total: z.number() });
    server.registerTool(
        'add_structured',
        { description: 'Add two numbers and return their sum as an object.', inputSchema: numbers, outputSchema },
        async ({ first, second, label }) => {
            const sum = { label, total: first + second };
            return { content: [{ type: 'text', text: JSON.stringify(sum) }], structuredContent: sum };
        }
    );
}

function addMany(server, count) {
    for (let n = 0; n < count; n++) {
        server.registerTool(
            `tool_${String(n).padStart(3, '0')}`,
            {
                description:
                    `Search collection ${n} and return the records that match best.\n\n` +
                    'Words are matched without regard to case; records that were deleted are left out.',
                inputSchema: z.object({
                    query: z.string().describe('What to look for, in plain words.'),
                    limit: z.int().default(n).describe('The largest number of records to return.'),
                    threshold: z.number().default(0.5).describe('The lowest score that a record may have, from 0 to 1.'),
                    tags: z.array(z.string()).nullable().default(null).describe('Only records that carry all of these tags.'),
                    order: z.enum(['newest', 'oldest', 'best']).default('best').describe('Which records come first.')
                })
            },
            async ({ query }) => ({ content: [{ type: 'text', text: query }] })
        );
    }
}

serveStdio(() => {
    const server = new McpServer({ name: 'bench', version: '1.0.0' }, { capabilities: { tools: {} } });
    if (kind === 'basic') addTools(server);
    else if (kind === 'structured') addStructured(server);
    else addMany(server, Number(kind));
    return server;
});
